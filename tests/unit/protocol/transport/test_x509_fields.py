"""Reading the public key of a certificate, and refusing one that could be read in two ways."""

from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pit_protocol.transport.x509_fields import read_fields
from tests.support.certificates import a_certificate


def test_the_key_and_the_times_are_those_that_a_library_reads() -> None:
    made = a_certificate("pit.example.org")
    fields = read_fields(made.certificate.public_bytes(Encoding.DER))
    key = made.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert fields.public_key == key
    assert fields.not_before == made.certificate.not_valid_before_utc
    assert fields.not_after - fields.not_before == timedelta(days=31)


def test_what_is_cut_off_is_refused() -> None:
    whole = a_certificate().certificate.public_bytes(Encoding.DER)
    for size in (0, 1, 2, 10, len(whole) - 1):
        with pytest.raises(ValueError):
            read_fields(whole[:size])


@pytest.mark.parametrize(
    "content",
    [
        b"\x30\x80\x02\x01\x02\x00\x00",  # an indefinite length, which OpenSSL reads in another way
        b"\x30\x85\x00\x00\x00\x00\x01\x00",
        b"\x3f\x81\x01\x00",  # a tag of two bytes
        b"\x30\x03\x30\x01\x02",
        b"",
    ],
)
def test_unusual_encodings_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        read_fields(content)
