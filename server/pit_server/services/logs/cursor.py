"""A reader's position in each of a job's streams, as a short text for URLs.

Variable-length integers with delta-encoded stream keys take about six characters per process, so that
the cursor of a job with a thousand processes fits into a request line.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping

from pit_protocol.problem import Problem


def render_cursor(event_id: int, offsets: Mapping[int, int]) -> str:
    numbers = [event_id]
    before = 0
    for key, offset in sorted(offsets.items()):
        numbers += [key - before, offset]
        before = key
    return base64.urlsafe_b64encode(bytes(_bytes(numbers))).decode().rstrip("=")


def parse_cursor(text: str) -> tuple[int, dict[int, int]]:
    """The inverse of `render_cursor`: the last event, and an offset for each stream's key."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        event_id, *rest = _numbers(data)
    except (binascii.Error, ValueError):
        event_id, rest = -1, []
    if event_id < 0 or len(rest) % 2:
        raise Problem(
            "bad_cursor", f"{text[:40]!r} is not a cursor", "leave it out to read from the start", status=422
        )
    offsets = {}
    key = 0
    for step, offset in zip(rest[::2], rest[1::2], strict=True):
        key += step
        offsets[key] = offset
    return event_id, offsets


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
