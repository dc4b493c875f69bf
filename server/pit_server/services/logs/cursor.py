"""A reader's position in each of a job's streams, as a short text for URLs.

Variable-length integers with delta-encoded stream keys take about six characters per process, so that
the cursor of a job with a thousand processes fits into a request line.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pit_protocol.problem import Problem

SEEN = "~"  # before what the reader has seen of unfinished lines


@dataclass(frozen=True)
class Cursor:
    event_id: int = 0  # the last event
    offsets: Mapping[int, int] = field(default_factory=dict)  # by the key of the stream
    seen: Mapping[int, int] = field(default_factory=dict)  # up to where, of streams with an unfinished line


def render_cursor(cursor: Cursor) -> str:
    text = _render(cursor.event_id, cursor.offsets)
    return f"{text}{SEEN}{_render(0, cursor.seen)}" if cursor.seen else text


def parse_cursor(text: str) -> Cursor:
    """The inverse of `render_cursor`."""
    places, mark, seen = text.partition(SEEN)
    try:
        return Cursor(*_parse(places), _parse(seen)[1] if mark else {})
    except (binascii.Error, ValueError):
        raise Problem(
            "bad_cursor", f"{text[:40]!r} is not a cursor", "leave it out to read from the start", status=422
        ) from None


def _render(first: int, pairs: Mapping[int, int]) -> str:
    numbers = [first]
    before = 0
    for key, offset in sorted(pairs.items()):
        numbers += [key - before, offset]
        before = key
    return base64.urlsafe_b64encode(bytes(_bytes(numbers))).decode().rstrip("=")


def _parse(text: str) -> tuple[int, dict[int, int]]:
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    first, *rest = _numbers(data)
    if len(rest) % 2:
        raise ValueError("a stream has no offset")
    pairs = {}
    key = 0
    for step, offset in zip(rest[::2], rest[1::2], strict=True):
        key += step
        pairs[key] = offset
    return first, pairs


def _bytes(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        while number >= 0x80:
            yield number & 0x7F | 0x80
            number >>= 7
        yield number


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise ValueError("no offset is that large")
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("the last number is cut off")
