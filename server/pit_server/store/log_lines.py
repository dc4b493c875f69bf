"""Bytes of a stream as lines, each as a terminal shows it in the end.

A newline ends a line. A carriage return begins a new version of it; only the last version is shown. So do
newlines after "up": nested progress bars go back down to one of their lines in this way. All bars that are
nested in another share one line, which shows the one written last.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_LINE = 16 * 1024  # a longer line is shown in pieces
LINE_COST = 60  # of a line in an answer, beside its text
UP = b"\x1b[A"  # the cursor moves to the line above
_BACK = UP + b"\n"
_MAX_DOWN = 16  # so many newlines after "up" lead back; bars are not nested deeper
BEFORE = len(UP) + _MAX_DOWN  # bytes before a newline that say what it is
_RUN = re.compile(rb"(?:\n{1,%d}(?:\x1b\[A)+)*\n{1,%d}" % (_MAX_DOWN, _MAX_DOWN))
_CONTROL = bytes(set(range(32)) - set(b"\n\r\t"))  # `\u0000` in JSON
_CONTROL_COST = 5


class Span(NamedTuple):
    """A line as positions in the data: its last version, and where the next line begins."""

    start: int
    stop: int
    end: int


def split(data: bytes, *, is_last: bool) -> tuple[list[Span], int]:
    """Lines, and where the last version of the unfinished line after them begins.

    With `is_last` nothing follows the data, so the line at its end is finished too.
    """
    found: list[Span] = []
    start = 0
    has_versions = b"\r" in data or _BACK in data
    while (newline := _find_end(data, start)) >= 0:
        if has_versions or newline - start > MAX_LINE:
            *pieces, last = _last_version(data, start, newline)
            found += pieces
            found.append(last._replace(end=newline + 1))
        else:
            found.append(Span(start, newline, newline + 1))
        start = newline + 1
    if start == len(data):
        return found, start
    *pieces, last = _last_version(data, start, len(data))
    found += pieces
    if not is_last:
        return found, last.start
    found.append(last)
    return found, len(data)


def cost_of(data: bytes) -> int:
    """About how many bytes its lines take in an answer."""
    control = len(data) - len(data.translate(None, _CONTROL))
    return len(data) + control * _CONTROL_COST + data.count(b"\n") * LINE_COST


def is_plain(data: bytes) -> bool:
    """Whether its lines are those between newlines: none is rewritten or overlong."""
    if b"\r" in data or _BACK in data:
        return False
    start = 0
    while start + MAX_LINE < len(data):
        newline = data.rfind(b"\n", start, start + MAX_LINE + 1)
        if newline < 0:
            return False
        start = newline + 1
    return start > 0


def find_end_before(data: bytes, start: int, stop: int) -> int:
    """Where the last newline between two positions is that ends a line; -1 if there is none."""
    newline = data.rfind(b"\n", start, stop)
    while newline >= 0 and _leads_back(data, newline):
        newline = data.rfind(b"\n", start, newline)
    return newline


def shown(version: bytes) -> bytes:
    """Without what rewrites nothing yet: `90%\\r` still shows `90%`."""
    stop = len(version)
    while end := next((end for end in (b"\r", b"\n", UP) if version.endswith(end, 0, stop)), b""):
        stop -= len(end)
    return version[:stop]


def _find_end(data: bytes, start: int) -> int:
    newline = data.find(b"\n", start)
    while newline >= 0 and data.endswith(UP, start, newline):
        run = _RUN.match(data, newline)
        newline = data.find(b"\n", run.end() if run else newline + 1)
    return newline


def _leads_back(data: bytes, newline: int) -> bool:
    first = newline
    while newline - first < _MAX_DOWN - 1 and data.endswith(b"\n", 0, first):
        first -= 1
    return data.endswith(UP, 0, first)


def _last_version(data: bytes, start: int, end: int) -> Iterator[Span]:
    """The last version of the line in `data[start:end]`, in pieces if it is overlong."""
    stop = start + len(shown(data[start:end]))
    start = max(data.rfind(b"\r", start, stop) + 1, data.rfind(b"\n", start, stop) + 1, start)
    while end - start > MAX_LINE:
        cut = _between_characters(data, start + MAX_LINE)
        yield Span(start, max(min(cut, stop), start), cut)
        start = cut
    yield Span(start, max(stop, start), end)


def _between_characters(data: bytes, position: int) -> int:
    """The last position up to this one that is not inside a UTF-8 character."""
    for back in (1, 2, 3):
        byte = data[position - back]
        if byte < 0x80:
            return position
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return position - back if length > back else position
    return position
