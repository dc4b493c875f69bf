"""Directories by descriptor: below the root, no symlink is ever followed.

Someone else may choose the names in a tree, and may swap a directory for a link at any time. A path that is
joined as text would be resolved through that link; here each directory on the way is opened on its own, with
O_NOFOLLOW. Every call exists on macOS, too.
"""

import errno
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pit_protocol.problem import Problem

MOST_OPEN = 64  # directories whose descriptors are kept open
NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW


class DirectoryTree:
    """A directory and everything below it. For one thread; another one takes a `clone`.

    New directories belong to `owner` (uid and gid), if there is one.
    """

    def __init__(self, root: int, path: Path, owner: tuple[int, int] | None = None) -> None:
        self.path = path  # for messages only
        self.owner = owner
        self._root = root
        self._open: dict[str, int] = {}
        self._closing = threading.Lock()

    @classmethod
    def at(cls, path: Path, owner: tuple[int, int] | None = None, *, follow: bool = True) -> "DirectoryTree":
        """The tree at a trusted path, which may lead through links; with `follow` off, not be one."""
        return cls(os.open(path, _DIRECTORY | (0 if follow else os.O_NOFOLLOW)), path, owner)

    def below(self, parts: Sequence[str], *, make: int | None = None) -> "DirectoryTree":
        """The tree of a directory in this one."""
        return DirectoryTree(os.dup(self.directory(parts, make=make)), self.path.joinpath(*parts), self.owner)

    def clone(self) -> "DirectoryTree":
        """The same tree for another thread; raises OSError if this one is closed."""
        # Without the lock, the number of a closed descriptor may already belong to another file.
        with self._closing:
            return DirectoryTree(os.dup(self._root), self.path, self.owner)

    def __enter__(self) -> "DirectoryTree":
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing:
            for descriptor in (*self._open.values(), self._root):
                os.close(descriptor)
            self._open, self._root = {}, -1

    def directory(self, parts: Sequence[str], *, make: int | None = None) -> int:
        """The descriptor of a directory, valid until the next call.

        A missing one is made with the mode `make`; without a mode, FileNotFoundError is raised. Raises a
        Problem if a link or a file is in the way.
        """
        known = len(parts)
        while known and "/".join(parts[:known]) not in self._open:
            known -= 1
        place = self._open["/".join(parts[:known])] if known else self._root
        for depth in range(known, len(parts)):
            place = self._enter(place, parts[: depth + 1], make)
        return place

    def get_status(self, parts: Sequence[str]) -> os.stat_result | None:
        """The status of an entry, of a link itself; None if there is none."""
        try:
            return os.stat(parts[-1], dir_fd=self.directory(parts[:-1]), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def check_no_directory(self, parts: Sequence[str]) -> None:
        """Raise a Problem if there is a directory in the place of a file."""
        there = self.get_status(parts)
        if there and stat.S_ISDIR(there.st_mode):
            path = printable(self.path.joinpath(*parts))
            raise Problem("is_directory", f"{path} is a directory here", "move it away")

    def create(self, parts: Sequence[str]) -> int:
        """Create an empty file in place of any file or link of that name; open for reading and writing."""
        self.check_no_directory(parts)
        place = self.directory(parts[:-1])
        with suppress(FileNotFoundError):
            os.unlink(parts[-1], dir_fd=place)
        return os.open(parts[-1], _NEW, 0o666, dir_fd=place)

    def _enter(self, above: int, parts: Sequence[str], make: int | None) -> int:
        name = parts[-1]
        if make is not None:
            with suppress(FileExistsError):
                os.mkdir(name, make, dir_fd=above)
                if self.owner:
                    os.chown(name, *self.owner, dir_fd=above, follow_symlinks=False)
        try:
            descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            # For a link Linux says ENOTDIR and macOS ELOOP.
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            path = printable(self.path.joinpath(*parts))
            raise Problem(
                "no_directory",
                f"{path} is a link or a file, not a directory, and nothing is written past it",
                "move it away",
            ) from error
        # The newest are still needed; the one that is closed here never is.
        if len(self._open) >= MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        self._open["/".join(parts)] = descriptor
        return descriptor


def get_parts(name: str) -> list[str] | None:
    """The names along a relative path; None if it leads out of the tree."""
    if name.startswith("/") or "/../" in f"/{name}/" or "\0" in name:
        return None
    return [part for part in name.split("/") if part not in ("", ".")]


def printable(name: object) -> str:
    """A name for a message, with control characters and bytes that are not UTF-8 escaped."""
    return repr(str(name))[1:-1]
