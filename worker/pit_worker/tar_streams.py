"""Directories of jobs as tar streams: unpacked here when they come, packed when they go back."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.tar_reader import DIRECTORY, FILE, LINK, Member, TarReader
from pit_protocol.tar_writer import header, padding, sealed
from pit_worker import footing

BLOCK = 256 * 1024
NOBODY = (-1, -1)
MOST_HOLES = 16 * 1024**3  # bytes that a file may have without nearly any being written


class Unreadable(Exception):
    """A file that cannot be read to its end, though its size is said already.

    No OSError: those that come up while a body is sent are taken for trouble with the connection.
    """

    def __init__(self, path: str, error: OSError) -> None:
        self.path, self.why = path, _words(error)
        super().__init__(f"{path!r}: {self.why}")


def unpack(chunks: Iterable[bytes], target: Path, owner: tuple[int, int] = NOBODY) -> None:
    """Write a tree to an empty directory; raises a Problem for a stream that is not whole."""
    reader = TarReader(chunks)
    root = os.open(target, footing.DIRECTORY)
    try:
        for member in reader.members():
            if path := _path(member.name):
                _add(root, path, member, reader, owner)
    finally:
        os.close(root)
    if not reader.is_sealed:
        raise Problem("bad_archive", "the tree is not whole")


def pack(root: Path, paths: Iterable[str], unread: dict[str, str]) -> Iterator[bytes]:
    """Some files, directories and links below `root`; what is gone meanwhile is left out.

    What cannot be read is left out too, and noted in `unread` with the reason; or it is Unreadable.
    """
    handle = os.open(root, footing.DIRECTORY)
    try:
        yield from sealed(_members(handle, paths, unread))
    finally:
        os.close(handle)


def _path(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith("/"):
        raise Problem("bad_archive", f"{name[:100]!r} leads out of the tree")
    return "/".join(parts)


def _add(root: int, path: str, member: Member, reader: TarReader, owner: tuple[int, int]) -> None:
    with footing.parent_of(root, path, owner=owner) as (place, name):
        if member.kind == DIRECTORY:
            footing.make_directory(place, name, owner, member.mode | 0o700)
            return
        if member.kind == LINK:
            os.symlink(member.target, name, dir_fd=place)
        elif member.kind == FILE:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | footing.NO_FOLLOW
            with open(os.open(name, flags, member.mode & 0o777, dir_fd=place), "wb") as file:
                for piece in reader.pieces(member.size):
                    file.write(piece)
            os.utime(name, (member.mtime, member.mtime), dir_fd=place, follow_symlinks=False)
        else:
            raise Problem("bad_archive", f"{path!r} is neither file, directory nor link")
        footing.give(place, name, owner)


def _members(root: int, paths: Iterable[str], unread: dict[str, str]) -> Iterator[bytes]:
    for path in paths:
        try:
            yield from _member(root, path)
        except OSError as error:
            if error.errno not in footing.GONE:
                unread[path] = _words(error)


def _member(root: int, path: str) -> Iterator[bytes]:
    with footing.parent_of(root, path) as (place, name):
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        mode, mtime = stat.S_IMODE(status.st_mode), status.st_mtime
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=place)
            yield header(Member(path, LINK, mode, 0, mtime, target))
        elif stat.S_ISDIR(status.st_mode):
            yield header(Member(path + "/", DIRECTORY, mode, 0, mtime, ""))
        elif stat.S_ISREG(status.st_mode):
            _check_holes(status)
            # What became a link or a pipe since is not opened, or not waited for.
            handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | footing.NO_FOLLOW, dir_fd=place)
            with open(handle, "rb", buffering=0) as file:
                size = os.fstat(handle).st_size
                yield header(Member(path, FILE, mode, size, mtime, ""))
                left = size
                while left:
                    # One that shrinks meanwhile is filled up: its size is said already.
                    data = _read(file, path, min(BLOCK, left)) or b"\0" * min(BLOCK, left)
                    left -= len(data)
                    yield data
                yield padding(size)


def _check_holes(status: os.stat_result) -> None:
    """Holes travel as zeros, and take room on the head: a terabyte of them is no result. Raises OSError."""
    if status.st_size > MOST_HOLES and status.st_blocks * 512 < status.st_size // 100:
        raise OSError(
            errno.EFBIG, f"its {status.st_size:,} bytes are a hole but for {status.st_blocks * 512:,}"
        )


def _read(file: FileIO, path: str, size: int) -> bytes | None:
    try:
        return file.read(size)
    except OSError as error:
        raise Unreadable(path, error) from error


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
