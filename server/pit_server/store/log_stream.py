"""Log streams as files: `<name>.log` has the bytes, `<name>.times` when they arrived.

The size of `<name>.log` defines what has arrived. Times are written first: a head killed between the
two writes leaves an extra time, which does no harm, and never bytes without a time.
"""

import io
import os
import re
import struct
import threading
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pit_server import cancellation
from pit_server.store.data_root import DataRoot
from pit_server.store.log_lines import MAX_LINE, cost_of, is_plain, split

STAMP = struct.Struct(">Qd")  # offset, seconds
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


class LogStream:
    """One append-only stream, such as the output of one process."""

    _locks = tuple(threading.Lock() for _ in range(64))

    def __init__(self, directory: Path, name: str) -> None:
        self._bytes = directory / f"{name}.log"
        self._times = directory / f"{name}.times"

    def size(self) -> int:
        try:
            return self._bytes.stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, data: bytes, at: float, offset: int | None = None) -> bool:
        """Append the new part of `data`, which begins at `offset`; False if bytes before it are missing."""
        with self._locks[hash(self._bytes) % len(self._locks)]:
            size = self.size()
            known = 0 if offset is None else size - offset
            if known < 0:
                return False
            if known < len(data):
                self._write(data[known:], at, size)
            return True

    def sync(self) -> None:
        """Flush to disk, because the log of an ended process must survive a power cut."""
        try:
            with self._bytes.open("rb") as file:
                os.fsync(file.fileno())
        except FileNotFoundError:
            return  # a process without output

    def read(self, offset: int, limit: int, *, is_final: bool, until: int | None = None) -> Portion:
        """Lines from `offset` on, which take about `limit` bytes in an answer.

        The bytes of earlier versions count, but are not kept, so there may be no line at all. If final, an
        unterminated last line is a line. `until` hides what is after that offset.
        """
        lines: list[Line] = []
        position, rest, scanned, cost = offset, b"", 0, 0
        times = _Times(self._stamps(offset))
        with self._open() as file:
            file.seek(offset)
            is_complete = False
            while not is_complete and not (lines and cost >= limit) and scanned < MOST_SCANNED:
                cancellation.check()
                asked = min(STEP, limit)
                if until is not None:
                    asked = min(asked, max(until - position - len(rest), 0))
                block = file.read(asked)
                scanned, cost = scanned + len(block), cost + cost_of(block)
                is_complete = len(block) < asked or not asked
                data = rest + block
                spans, rest_at = split(data, is_last=is_final and is_complete)
                lines += [
                    Line(times.at(position + span.start), data[span.start : span.stop],
                         position + span.start, position + span.end)
                    for span in spans
                ]  # fmt: skip
                position, rest = position + rest_at, data[rest_at:]
        unfinished = None
        if text := rest.rstrip(b"\r"):
            unfinished = Line(times.at(position), text, position, position + len(rest))
        return Portion(lines, unfinished, position, times.at(position), is_complete)

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
        """Up to `size` bytes from `offset` on, exactly as they were written."""
        with self._open() as file:
            file.seek(offset)
            return file.read(size)

    def tail_offset(self, count: int) -> int:
        """Where the last `count` lines begin; an overlong one counts as many as it is shown in."""
        size = position = self.size()
        found, first = 0, max(size - count * MAX_LINE, 0)
        while position > first:
            cancellation.check()
            step = min(BLOCK, position - first)
            position -= step
            block = self.pread(position, step)
            # The newline at the end of the stream begins no line.
            index = block.rfind(b"\n", 0, step - 1 if position + step == size else step)
            while index >= 0:
                found += 1
                if found == count:
                    return position + index + 1
                index = block.rfind(b"\n", 0, index)
        # Not in the middle of a character.
        return first + sum(1 for _ in takewhile(lambda byte: byte & 0xC0 == 0x80, self.pread(first, 3)))

    def offset_at(self, time: float) -> int:
        """The offset of the first line that arrived at `time` or later."""
        low, high = 0, self._count()
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._stamp(middle)[1] < time else (low, middle)
        return self._line_start(self._stamp(low)[0]) if low < self._count() else self.size()

    def _line_start(self, offset: int) -> int:
        """The start of the first line, or new version of a line, at or after `offset`."""
        position = max(offset - 1, 0)
        while offset > 0 and (block := self.pread(position, BLOCK)):
            cancellation.check()
            if found := _BREAK.search(block):
                return position + found.end()
            # A return at the end may be one half of `\r\n`.
            position += len(block.rstrip(b"\r")) or len(block)
            if len(block) < BLOCK:
                return self.size()
        return position

    def _write(self, data: bytes, at: float, offset: int) -> None:
        try:
            times = self._times.open("ab")
        except FileNotFoundError:
            self._times.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            times = self._times.open("ab")
        with times:
            # A power cut may have left a partial stamp, which would shift all that follow.
            if torn := times.tell() % STAMP.size:
                times.truncate(times.tell() - torn)
            times.write(STAMP.pack(offset, at))
        with self._bytes.open("ab") as file:
            file.write(data)

    def _open(self) -> BinaryIO:
        try:
            return self._bytes.open("rb")
        except FileNotFoundError:
            return io.BytesIO()  # nothing has arrived yet

    def _count(self) -> int:
        try:
            return self._times.stat().st_size // STAMP.size
        except FileNotFoundError:
            return 0

    def _stamp(self, index: int) -> tuple[int, float]:
        with self._times.open("rb") as file:
            file.seek(index * STAMP.size)
            offset, at = STAMP.unpack(file.read(STAMP.size))
        return offset, at

    def _stamps(self, offset: int) -> Iterator[tuple[int, float]]:
        """The stamps from the one that covers `offset` on."""
        low, high = 0, self._count()
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._stamp(middle)[0] <= offset else (low, middle)
        first = max(low - 1, 0)
        if self._count() == 0:
            return
        with self._times.open("rb") as file:
            file.seek(first * STAMP.size)
            while len(record := file.read(STAMP.size)) == STAMP.size:
                yield STAMP.unpack(record)


class _Times:
    """When bytes arrived, asked with rising offsets."""

    def __init__(self, stamps: Iterator[tuple[int, float]]) -> None:
        self._stamps = stamps
        self._time = next(stamps, (0, 0.0))[1]
        self._next = next(stamps, None)

    def at(self, offset: int) -> float:
        while self._next is not None and self._next[0] <= offset:
            self._time, self._next = self._next[1], next(self._stamps, None)
        return self._time


def process_log(data: DataRoot, job: int, attempt: int, group: int, index: int) -> LogStream:
    """The output of one process."""
    return LogStream(data.logs(job), f"{attempt}-{group}.{index}")


def preparation_log(data: DataRoot, job: int) -> LogStream:
    """What the head logs while it prepares a job, for whichever attempt."""
    return LogStream(data.logs(job), "1-prepare")
