"""What pit reads from a certificate: its public key and when it is valid.

By hand, because the client has no library for it. Only definite lengths and the expected tags are accepted,
so that this code and OpenSSL cannot see two different keys in one certificate.
"""

from datetime import UTC, datetime
from typing import NamedTuple

VERSION, INTEGER, SEQUENCE, UTC_TIME, GENERALIZED_TIME = 0xA0, 0x02, 0x30, 0x17, 0x18
# Of the signed part, after the version: serial, algorithm, issuer, validity, subject, public key.
_TAGS = (INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE)
_FORMATS = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


class Fields(NamedTuple):
    public_key: bytes  # with its algorithm, as in the certificate
    not_before: datetime
    not_after: datetime


def read_fields(certificate: bytes) -> Fields:
    """Read a certificate in DER form; raises ValueError for anything unusual."""
    (whole,) = _split(certificate)
    signed = _split(_content(_split(_content(whole))[0]))
    fields = signed[1:] if signed[0][0] == VERSION else signed
    if tuple(field[0] for field in fields[: len(_TAGS)]) != _TAGS:
        raise ValueError("not a certificate")
    begin, end = _split(_content(fields[3]))
    return Fields(fields[5], _time(begin), _time(end))


def _split(data: bytes) -> list[bytes]:
    """The elements that follow one another in `data`, each with its tag and length."""
    elements = []
    while data:
        _, end = _borders(data)
        elements.append(data[:end])
        data = data[end:]
    if not elements:
        raise ValueError("an element is missing")
    return elements


def _content(element: bytes) -> bytes:
    start, end = _borders(element)
    return element[start:end]


def _borders(data: bytes) -> tuple[int, int]:
    """Where the content of the first element begins and ends."""
    if len(data) < 2 or data[0] & 0x1F == 0x1F:
        raise ValueError("not a simple tag")
    size, start = data[1], 2
    if size == 0x80 or size > 0x84:
        raise ValueError("not a definite length")
    if size > 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    if start + size > len(data):
        raise ValueError("it is cut off")
    return start, start + size


def _time(element: bytes) -> datetime:
    if element[0] not in _FORMATS:
        raise ValueError("not a time")
    text = _content(element).decode("ascii")
    return datetime.strptime(text, _FORMATS[element[0]]).replace(tzinfo=UTC)
