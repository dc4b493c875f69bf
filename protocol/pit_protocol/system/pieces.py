"""A stream of bytes on disk; of a long one, the beginning and the end.

The first file has the beginning. What follows is in pieces that are named after the offset at which they
begin, and the oldest of them are deleted. So there is at most one gap, and every byte keeps its offset.

`python pieces.py FILE KEEP` copies its input to such a stream. It runs beside every container, without the
site-packages; every other process has a supervisor that is a copy of a program with this in memory. So this
file imports nothing that is slow or large, not even `typing`.
"""

# ruff: noqa: PTH103, PTH108, PTH116, PTH118, SIM105 - pathlib and contextlib take longer to import than the rest

from __future__ import annotations

import errno
import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = 8  # of what is kept: one is the beginning, seven are the end
BLOCK = 1024 * 1024
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
COMPANION = ".times"  # a file beside a piece that is deleted with it


class Piece:
    def __init__(self, start: int, end: int, path: str) -> None:
        self.start, self.end, self.path = start, end, path


class Pieces:
    """The files of one stream. Only one thread may append at a time; others may read meanwhile."""

    def __init__(self, first: str, prefix: str) -> None:
        """The later pieces are `prefix` and an offset."""
        self._first = first
        self._folder, self._prefix = os.path.split(prefix)

    def list(self) -> list[Piece]:
        """All pieces in order; always the first, which may not exist yet."""
        try:
            begin = os.stat(self._first).st_size
        except FileNotFoundError:
            begin = 0
        return [Piece(0, begin, self._first), *sorted(self._list_end(), key=lambda piece: piece.start)]

    def size(self) -> int:
        """The offset after the last byte."""
        return self.list()[-1].end

    def gap(self) -> tuple[int, int] | None:
        """What was dropped between the beginning and the end: its offsets."""
        begin, *end = self.list()
        return (begin.end, end[0].start) if end and end[0].start > begin.end else None

    def pread(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on, as far as there is no gap."""
        found = []
        for piece in self.list():
            if piece.start <= offset < piece.end:
                data = _pread(piece, offset, size)
                found.append(data)
                offset, size = offset + len(data), size - len(data)
        return b"".join(found)

    def spans(self, data: bytes, offset: int, keep: int) -> Iterator[tuple[Piece, memoryview]]:
        """Which bytes go to the end of which piece, so that `keep` bytes are kept; 0: all.

        Bytes before `offset` that have not arrived never will: a new end begins there.
        """
        pieces = self.list()
        if offset > pieces[-1].end:
            for old in pieces[1:]:
                _delete(old)
            pieces[1:] = [self._begin(offset)]
        rest = memoryview(data)
        while rest:
            last = pieces[-1]
            room = max(keep // PARTS, 1) - (last.end - last.start) if keep else len(rest)
            if room <= 0:
                pieces.append(self._begin(last.end))
                if len(pieces) > PARTS:
                    _delete(pieces.pop(1))
                continue
            yield last, rest[:room]
            last.end += len(rest[:room])
            rest = rest[room:]

    def append(self, data: bytes, offset: int, keep: int) -> None:
        """Write the bytes; raises OSError when the disk is full, and then a part of them may be written."""
        for piece, part in self.spans(data, offset, keep):
            write_end(piece.path, part)

    def _list_end(self) -> Iterator[Piece]:
        try:
            entries = os.scandir(self._folder)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                start = entry.name[len(self._prefix) :]
                if entry.name.startswith(self._prefix) and start.isdecimal():
                    try:
                        size = entry.stat().st_size
                    except FileNotFoundError:
                        continue  # dropped since it was listed
                    yield Piece(int(start), int(start) + size, entry.path)

    def _begin(self, offset: int) -> Piece:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, f"{self._prefix}{offset}")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return Piece(offset, offset, path)


def write_end(path: str, data: memoryview) -> None:
    """Append everything to a file; a disk that fills up takes a part without an error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _pread(piece: Piece, offset: int, size: int) -> bytes:
    try:
        descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""  # dropped since it was listed
    try:
        return os.pread(descriptor, min(size, piece.end - offset), offset - piece.start)
    finally:
        os.close(descriptor)


def _delete(piece: Piece) -> None:
    for path in (piece.path, piece.path + COMPANION):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def main(first: str, keep: int) -> None:
    """Copy the input. When the disk is full, drop bytes rather than the process that writes them."""
    try:
        # Larger reads make it as fast as `cat`. The kernel may refuse, where a user has many pipes.
        fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, BLOCK)
    except OSError:
        pass
    pieces = Pieces(first, f"{first}.")
    offset = pieces.size()
    while data := os.read(0, BLOCK):
        try_append(pieces, data, offset, keep)
        offset += len(data)
    if offset > pieces.size():
        try_append(pieces, b"", offset, keep)  # so that bytes dropped at the end count, too


def try_append(pieces: Pieces, data: bytes, offset: int, keep: int) -> None:
    """Write the bytes as far as the disk has space."""
    try:
        pieces.append(data, offset, keep)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
