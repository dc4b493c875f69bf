"""Log streams as files: `<name>.log` has the bytes, `<name>.times` when they arrived.

The end of a long stream is in `<name>.end/`, and between beginning and end is a gap. The sizes of the
files define what has arrived. Times are written first: a head killed between the two writes leaves an
extra time, which does no harm, and never bytes without a time.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from pit_protocol.system.pieces import COMPANION, Piece, Pieces, write_end
from pit_server import cancellation
from pit_server.store.data_root import DataRoot
from pit_server.store.log_lines import BEFORE, MAX_LINE, cost_of, find_end_before, is_plain, shown, split
from pit_server.store.log_times import Clock, Stamp, TimesFile

BLOCK = 256 * 1024
STEP = 32 * 1024  # of reading lines: all of them may be empty
MOST_SCANNED = 64 * 1024 * 1024  # bytes of earlier versions of a line in one answer
_BREAK = re.compile(rb"\n|\r+(?=[^\r\n])")  # what ends a line, or a version of one


class Line(NamedTuple):
    at: float  # when its last version began to arrive
    text: bytes
    start: int  # of its last version
    end: int  # offset after it, where reading continues


class Portion(NamedTuple):
    """What a stream has from an offset on."""

    lines: list[Line]
    unfinished: Line | None  # the last version of the line that has no end yet
    position: int  # where reading continues
    at: float  # when what is there began to arrive
    is_complete: bool  # there was no more


class Gap(NamedTuple):
    """What is not kept of a stream."""

    start: int
    end: int

    def text(self, position: int) -> bytes:
        """The line that is shown in its place, to a reader who has come to `position`."""
        missing = self.end - max(position, self.start)
        return b"pit: %s bytes of output are missing here: only the beginning and the end are kept" % (
            f"{missing:,}".encode()
        )


class LogStream:
    """One append-only stream, such as the output of one process."""

    _locks = tuple(threading.Lock() for _ in range(64))

    def __init__(self, directory: Path, name: str) -> None:
        self._first = directory / f"{name}.log"
        self._times = directory / f"{name}.times"
        self._pieces = Pieces(str(self._first), f"{directory / name}.end/")

    def size(self) -> int:
        """The offset after the last byte; what is not kept counts."""
        return self._pieces.size()

    def gap(self) -> Gap | None:
        found = self._pieces.gap()
        return Gap(*found) if found else None

    def append(
        self, data: bytes, at: float, offset: int | None = None, *, gap: int = 0, keep: int = 0
    ) -> bool:
        """Append the new part of `data`, which begins at `offset`; False if bytes before it are missing.

        The `gap` bytes before it never come. Of a long stream `keep` bytes are kept; 0: all.
        """
        with self._locks[hash(self._first) % len(self._locks)]:
            size = self.size()
            known = 0 if offset is None else size - offset
            if known < -gap:
                return False
            if known < len(data) or known < 0:
                self._write(data[max(known, 0) :], at, max(size, size - known), keep)
            return True

    def touch(self) -> None:
        """Make the stream exist, also if nothing is ever written to it."""
        self._first.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._first.touch(mode=0o600)

    def sync(self) -> None:
        """Flush to disk, because the log of an ended process must survive a power cut."""
        for piece in self._pieces.list():
            with suppress(FileNotFoundError), open(piece.path, "rb") as file:
                os.fsync(file.fileno())

    def read(self, offset: int, limit: int, *, is_final: bool, until: int | None = None) -> Portion:
        """Lines from `offset` on, which take about `limit` bytes in an answer.

        The bytes of earlier versions count, but are not kept, so there may be no line at all. If final, an
        unterminated last line is a line. `until` hides what is after that offset. A gap is a line that says
        how much is missing.
        """
        lines: list[Line] = []
        position, rest, scanned, cost = offset, b"", 0, 0
        clock, gap = Clock(self._stamps(offset)), self.gap()
        is_complete = False
        while not is_complete and not (lines and cost >= limit) and scanned < MOST_SCANNED:
            cancellation.check()
            asked = min(STEP, limit)
            if until is not None:
                asked = min(asked, max(until - position - len(rest), 0))
            block = self.pread(position + len(rest), asked)
            scanned, cost = scanned + len(block), cost + cost_of(block)
            data = rest + block
            is_short = len(block) < asked or not asked
            reached = position + len(data)
            is_at_gap = gap is not None and is_short and gap.start <= reached < min(gap.end, until or gap.end)
            is_complete = is_short and not is_at_gap
            spans, rest_at = split(data, is_last=is_at_gap or (is_final and is_complete))
            lines += [
                Line(clock.at(position + span.start), data[span.start : span.stop],
                     position + span.start, position + span.end)
                for span in spans
            ]  # fmt: skip
            position, rest = position + rest_at, data[rest_at:]
            if gap and is_at_gap:
                lines.append(Line(clock.at(gap.end), gap.text(position), position, gap.end))
                position = gap.end
        unfinished = None
        if text := shown(rest):
            unfinished = Line(clock.at(position), text, position, position + len(rest))
        return Portion(lines, unfinished, position, clock.at(position), is_complete)

    def count(self, limit: int, until: int) -> tuple[int, int]:
        """How many lines `read` finds up to `until` in steps of `limit`, and the size of their texts.

        With a limit of at most `STEP`: a larger one is several steps for `read`, and one for this.
        """
        lines = size = position = 0
        while True:
            cancellation.check()
            block = self.pread(position, min(limit, until - position))
            if len(block) == limit and is_plain(block):  # then its lines need not be looked at one by one
                length, found = block.rfind(b"\n") + 1, block.count(b"\n")
                lines, size, position = lines + found, size + length - found, position + length
                continue
            portion = self.read(position, limit, is_final=True, until=until)
            lines += len(portion.lines)
            size += sum(len(line.text) for line in portion.lines)
            position = portion.position
            if portion.is_complete:
                return lines, size

    def pread(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on, exactly as they were written, as far as there is no gap."""
        return self._pieces.pread(offset, size)

    def tail_offset(self, count: int) -> int:
        """Where the last `count` lines begin; an overlong one counts as many as it is shown in."""
        size, gap = self.size(), self.gap()
        if gap is None:
            return self._tail_within(0, size, count)[0]
        offset, found = self._tail_within(gap.end, size, count)
        if found + 1 >= count:  # the gap itself is a line
            return offset if found == count else gap.start
        return self._tail_within(0, gap.start, count - found - 1)[0]

    def offset_at(self, time: float) -> int:
        """The offset of the first line that arrived at `time` or later."""
        for piece in self._pieces.list():
            times = self._times_of(piece)
            index = times.find_time(time)
            if index < times.count():
                return self._line_start(times[index].offset)
        return self.size()

    def _tail_within(self, start: int, end: int, count: int) -> tuple[int, int]:
        """Where the last lines between two offsets begin, and how many there are, up to `count`."""
        position, found, first = end, 0, max(end - count * MAX_LINE, start)
        while position > first:
            cancellation.check()
            step = min(BLOCK, position - first)
            position -= step
            lead = min(BEFORE, position - start)
            block = self.pread(position - lead, lead + step)
            # The newline at the end begins no line.
            index = find_end_before(block, lead, len(block) - (position + step == end))
            while index >= 0:
                found += 1
                if found == count:
                    return position - lead + index + 1, found
                index = find_end_before(block, lead, index)
        if first == start:
            return start, found + (end > start)
        # Not in the middle of a character.
        return first + sum(
            1 for _ in takewhile(lambda byte: byte & 0xC0 == 0x80, self.pread(first, 3))
        ), count

    def _line_start(self, offset: int) -> int:
        """The start of the first line, or new version of a line, at or after `offset`."""
        gap = self.gap()
        if gap and offset == gap.end:
            return offset
        position = max(offset - 1, 0)
        while offset > 0 and (block := self.pread(position, BLOCK)):
            cancellation.check()
            if found := _BREAK.search(block):
                return position + found.end()
            # A return at the end may be one half of `\r\n`.
            position += len(block.rstrip(b"\r")) or len(block)
            if len(block) < BLOCK:
                return gap.start if gap and offset <= gap.start else self.size()
        return position

    def _write(self, data: bytes, at: float, offset: int, keep: int) -> None:
        self._first.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for piece, part in self._pieces.spans(data, offset, keep):
            self._times_of(piece).append(Stamp(piece.end, at), piece.end - piece.start)
            write_end(piece.path, part)

    def _times_of(self, piece: Piece) -> TimesFile:
        return TimesFile(Path(piece.path + COMPANION) if piece.start else self._times)

    def _stamps(self, offset: int) -> Iterator[Stamp]:
        """The stamps from the one that covers `offset` on."""
        for piece in self._pieces.list():
            times = self._times_of(piece)
            if offset < piece.start:
                yield from times.read_from(0)
            elif offset <= piece.end:
                yield from times.read_from(times.find_offset(offset))


def process_log(data: DataRoot, job: int, attempt: int, group: int, index: int) -> LogStream:
    """The output of one process."""
    return LogStream(data.logs(job), f"{attempt}-{group}.{index}")


def preparation_log(data: DataRoot, job: int) -> LogStream:
    """What the head logs while it prepares a job, for whichever attempt."""
    return LogStream(data.logs(job), "1-prepare")


def has_run(data: DataRoot, job: int, attempt: int) -> bool:
    """Whether a node has got an order to run the attempt: its streams exist from then on."""
    return any(data.logs(job).glob(f"{attempt}-*.*.log"))
