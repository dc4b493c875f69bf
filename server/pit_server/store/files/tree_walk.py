"""Walking a directory that users and jobs change at the same time: by descriptor, following no link.

However deep the directory is, it takes two descriptors and time in proportion to its entries: after a
directory, the way up is `..`, and inodes tell whether it is still the way that led down.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pit_protocol.transport.dirfd import NO_FOLLOW
from pit_server import cancellation

OPEN = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW


class Visit(NamedTuple):
    """One directory; valid until the next step."""

    parts: list[str]  # the names that lead to it
    directory: int
    entries: list[tuple[str, os.stat_result]]


def walk(root: Path, *, strict: bool = False) -> Iterator[Visit]:
    """The directory at a path of the head, and all below it; skips what disappears meanwhile.

    A directory that cannot be read is skipped, too, or is an OSError with `strict`.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        top = os.open(root, OPEN)
        try:
            yield from _Walk(top, strict=strict).visits()
        finally:
            os.close(top)


class Trail:
    """The way from a directory down to where one is, with one descriptor however long it is."""

    def __init__(self, top: int) -> None:
        self._top = top
        self.here = os.dup(top)
        self.parts: list[str] = []  # the names that lead here
        self._above: list[os.stat_result] = []  # the directories that lead here

    def enter(self, name: str, below: int) -> None:
        """Go down to a directory that was opened here; its descriptor is closed with the trail."""
        self._above.append(os.fstat(self.here))
        self.parts.append(name)
        self._move(below)

    def leave(self) -> None:
        """Go up; if something was moved meanwhile, to the last directory that is where it was."""
        self.parts.pop()
        expected = self._above.pop()
        try:
            self._move(os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.here))
            is_same = os.path.samestat(os.fstat(self.here), expected)
        except PermissionError:
            is_same = False
        if not is_same:
            self._find_way(expected)

    def close(self) -> None:
        os.close(self.here)

    def _find_way(self, last: os.stat_result) -> None:
        """The directory was moved: come back by names, as far as they still lead to where they led."""
        self._move(os.dup(self._top))
        expected = [*self._above[1:], last]
        for level, name in enumerate(self.parts):
            below = _open_same(self.here, name, expected[level])
            if below is None:
                del self.parts[level:], self._above[level:]
                return
            self._move(below)

    def _move(self, descriptor: int) -> None:
        os.close(self.here)
        self.here = descriptor


class _Walk:
    def __init__(self, top: int, *, strict: bool) -> None:
        self._strict = strict
        self._trail = Trail(top)
        self._waiting: list[list[str]] = []  # on each level: the directories to visit

    def visits(self) -> Iterator[Visit]:
        try:
            yield self._visit()
            while self._waiting:
                cancellation.check()
                if not self._waiting[-1]:
                    self._leave()
                elif self._enter(self._waiting[-1].pop()):
                    yield self._visit()
        finally:
            self._trail.close()

    def _visit(self) -> Visit:
        entries = self._read()
        folders = [name for name, status in entries if stat.S_ISDIR(status.st_mode)]
        self._waiting.append(folders[::-1])
        return Visit(self._trail.parts, self._trail.here, entries)

    def _enter(self, name: str) -> bool:
        try:
            below = os.open(name, OPEN, dir_fd=self._trail.here)
        except (FileNotFoundError, NotADirectoryError):  # gone, or replaced by a link or a file
            return False
        except PermissionError:
            if self._strict:
                raise
            return False
        self._trail.enter(name, below)
        return True

    def _leave(self) -> None:
        self._waiting.pop()
        if self._waiting:
            self._trail.leave()
            del self._waiting[len(self._trail.parts) + 1 :]

    def _read(self) -> list[tuple[str, os.stat_result]]:
        entries = []
        with os.scandir(self._trail.here) as found:
            for entry in found:
                with suppress(FileNotFoundError):
                    entries.append((entry.name, entry.stat(follow_symlinks=False)))
        return entries


def _open_same(directory: int, name: str, expected: os.stat_result) -> int | None:
    """The directory of that name, if it is still the same."""
    try:
        below = os.open(name, OPEN, dir_fd=directory)
    except OSError:
        return None
    if os.path.samestat(os.fstat(below), expected):
        return below
    os.close(below)
    return None
