"""Log streams as files: `<name>.log` has the bytes, `<name>.times` when they arrived.

The size of `<name>.log` defines what has arrived. Times are written first: a head killed between the
two writes leaves an extra time, which does no harm, and never bytes without a time.
"""

import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pit_server.store.data_root import DataRoot

STAMP = struct.Struct(">Qd")  # offset, seconds
MAX_LINE = 16 * 1024  # a longer line is shown in pieces


@dataclass(frozen=True)
class Line:
    at: float
    text: bytes
    end: int  # offset after it, where reading continues


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

    def lines(self, offset: int, limit: int, *, is_final: bool) -> list[Line]:
        """Whole lines from `offset` on, of at most `limit` bytes; an unterminated last line only if final."""
        try:
            with self._bytes.open("rb") as file:
                file.seek(offset)
                data = file.read(limit + 1)
        except FileNotFoundError:
            return []
        at_end = is_final and len(data) <= limit
        stamps = self._stamps(offset)
        time = next(stamps, (0, 0.0))
        following = next(stamps, None)
        result = []
        position = 0
        for piece in _pieces(data[:limit], at_end=at_end):
            while following is not None and following[0] <= offset + position:
                time, following = following, next(stamps, None)
            position += len(piece)
            result.append(Line(time[1], piece.removesuffix(b"\n"), offset + position))
        return result

    def tail_offset(self, count: int) -> int:
        """Where the last `count` lines begin."""
        size = position = self.size()
        found = 0
        while position > 0:
            step = min(MAX_LINE, position)
            position -= step
            with self._bytes.open("rb") as file:
                file.seek(position)
                block = file.read(step)
            for index in range(len(block) - 1, -1, -1):
                # The newline at the end of the stream begins no line.
                if block[index] == 10 and position + index + 1 < size:
                    found += 1
                    if found == count:
                        return position + index + 1
        return 0

    def offset_at(self, time: float) -> int:
        """The offset of the first line that arrived at `time` or later."""
        low, high = 0, self._count()
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._stamp(middle)[1] < time else (low, middle)
        return self._line_start(self._stamp(low)[0]) if low < self._count() else self.size()

    def _line_start(self, offset: int) -> int:
        """The start of the first line at or after `offset`."""
        with self._bytes.open("rb") as file:
            file.seek(max(offset - 1, 0))
            if offset > 0:
                while (line := file.readline(MAX_LINE)) and not line.endswith(b"\n"):
                    pass
            return file.tell()

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


def process_log(data: DataRoot, job: int, attempt: int, group: int, index: int) -> LogStream:
    """The output of one process."""
    return LogStream(data.logs(job), f"{attempt}-{group}.{index}")


def preparation_log(data: DataRoot, job: int, attempt: int) -> LogStream:
    """What the head logs while it prepares a job."""
    return LogStream(data.logs(job), f"{attempt}-prepare")


def _pieces(data: bytes, *, at_end: bool) -> Iterator[bytes]:
    """Lines with their newline; overlong ones in pieces; an unterminated last one only at the end."""
    start = 0
    while start < len(data):
        newline = data.find(b"\n", start, start + MAX_LINE)
        if newline < 0:
            if len(data) - start < MAX_LINE and not at_end:
                return
            newline = min(start + MAX_LINE, len(data)) - 1
        yield data[start : newline + 1]
        start = newline + 1
