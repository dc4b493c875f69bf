"""Directories of jobs as tar streams, on the way back to the head."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import NO_FOLLOW, DirectoryTree
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, Member
from pit_protocol.transport.tar_writer import header, padding, sealed
from pit_worker.data.tree_walk import GONE

BLOCK = 256 * 1024
MOST_HOLES = 16 * 1024**3  # largest size in bytes of a file that is nearly all holes


class Unreadable(Exception):
    """A file that cannot be read to its end, although its size was sent already.

    Not an OSError: an OSError while a body is sent counts as a broken connection.
    """

    def __init__(self, path: str, error: OSError) -> None:
        self.path, self.why = path, _words(error)
        super().__init__(f"{path!r}: {self.why}")


def pack(root: Path, paths: Iterable[str], unread: dict[str, str]) -> Iterator[bytes]:
    """Some files, directories and links below `root`; what has disappeared is left out.

    What cannot be read is left out, too, and added to `unread` with the reason; or Unreadable is raised.
    """
    with DirectoryTree.at(root, follow=False) as tree:
        yield from sealed(_members(tree, paths, unread))


def _members(tree: DirectoryTree, paths: Iterable[str], unread: dict[str, str]) -> Iterator[bytes]:
    for path in paths:
        try:
            yield from _member(tree, path)
        except Problem:
            continue  # a directory above it was replaced by a link or a file
        except OSError as error:
            if error.errno not in GONE:
                unread[path] = _words(error)


def _member(tree: DirectoryTree, path: str) -> Iterator[bytes]:
    *above, name = path.split("/")
    place = tree.directory(above)
    status = os.stat(name, dir_fd=place, follow_symlinks=False)
    mode, mtime = stat.S_IMODE(status.st_mode), status.st_mtime
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=place)
        yield header(Member(path, LINK, mode, 0, mtime, target))
    elif stat.S_ISDIR(status.st_mode):
        yield header(Member(path + "/", DIRECTORY, mode, 0, mtime, ""))
    elif stat.S_ISREG(status.st_mode):
        _check_holes(status)
        # What has become a link since is not opened, and a pipe is not waited for.
        handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | NO_FOLLOW, dir_fd=place)
        with open(handle, "rb", buffering=0) as file:
            size = os.fstat(handle).st_size
            yield header(Member(path, FILE, mode, size, mtime, ""))
            left = size
            while left:
                # A file that shrinks is filled up with zeros: its size was sent already.
                data = _read(file, path, min(BLOCK, left)) or b"\0" * min(BLOCK, left)
                left -= len(data)
                yield data
            yield padding(size)


def _check_holes(status: os.stat_result) -> None:
    """Raise OSError for a file that is nearly all holes: they are sent as zeros and fill the head's disk."""
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
