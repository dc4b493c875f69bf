"""When the bytes of a log arrived: pairs of offset and time, in a file beside each piece of the log."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FORMAT = struct.Struct(">Qd")  # offset, seconds
# More stamps than this, and than a quarter of the log, are written at most once per second.
FREE_BYTES = 4096
DENSE_S = 1.0


class Stamp(NamedTuple):
    offset: int
    at: float


class TimesFile:
    """The stamps of one piece."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def count(self) -> int:
        try:
            return self._path.stat().st_size // FORMAT.size
        except FileNotFoundError:
            return 0

    def append(self, stamp: Stamp, log_size: int) -> None:
        """Note when bytes arrived, unless tiny chunks would make the times larger than the log."""
        count = self.count()
        if count * FORMAT.size > FREE_BYTES + log_size // 4 and 0 <= stamp.at - self[count - 1].at < DENSE_S:
            return
        with self._path.open("ab") as file:
            # A power cut may have left a partial stamp, which would shift all that follow.
            if torn := file.tell() % FORMAT.size:
                file.truncate(file.tell() - torn)
            file.write(FORMAT.pack(*stamp))

    def __getitem__(self, index: int) -> Stamp:
        with self._path.open("rb") as file:
            file.seek(index * FORMAT.size)
            return Stamp(*FORMAT.unpack(file.read(FORMAT.size)))

    def find_offset(self, offset: int) -> int:
        """The index of the last stamp up to this offset; 0 if there is none."""
        low, high = 0, self.count()
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self[middle].offset <= offset else (low, middle)
        return max(low - 1, 0)

    def find_time(self, time: float) -> int:
        """The index of the first stamp at this time or later; the count if there is none."""
        low, high = 0, self.count()
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self[middle].at < time else (low, middle)
        return low

    def read_from(self, index: int) -> Iterator[Stamp]:
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(index * FORMAT.size)
            while len(record := file.read(FORMAT.size)) == FORMAT.size:
                yield Stamp(*FORMAT.unpack(record))


class Clock:
    """When bytes arrived, asked with rising offsets."""

    def __init__(self, stamps: Iterator[Stamp]) -> None:
        self._stamps = stamps
        self._time = next(stamps, Stamp(0, 0.0)).at
        self._next = next(stamps, None)

    def at(self, offset: int) -> float:
        while self._next is not None and self._next.offset <= offset:
            self._time, self._next = self._next.at, next(self._stamps, None)
        return self._time
