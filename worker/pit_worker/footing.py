"""Steps in a directory that a job can change at the same time: each by descriptor, and past no link."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW


@contextmanager
def parent_of(root: int, path: str, *, owner: tuple[int, int] | None = None) -> Iterator[tuple[int, str]]:
    """The directory that a path below `root` is in, and its name there; with `owner`, made where it lacks."""
    *above, name = path.split("/")
    place = os.dup(root)
    try:
        for part in above:
            if owner is not None:
                make_directory(place, part, owner)
            below = os.open(part, DIRECTORY, dir_fd=place)
            os.close(place)
            place = below
        yield place, name
    finally:
        os.close(place)


def make_directory(place: int, name: str, owner: tuple[int, int], mode: int = 0o700) -> None:
    """A directory, unless it is there."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=place)
        give(place, name, owner)


def give(place: int, name: str, owner: tuple[int, int]) -> None:
    if owner != (-1, -1):
        os.chown(name, *owner, dir_fd=place, follow_symlinks=False)


def walk(root: int) -> Iterator[tuple[str, os.stat_result]]:
    """All below `root`: files, directories and links; what is gone since it was listed is left out."""
    stack = [(os.dup(root), "")]
    while stack:
        place, above = stack.pop()
        try:
            for name in os.listdir(place):  # noqa: PTH208 - by descriptor
                path = f"{above}{name}"
                with suppress(OSError):  # gone, or another thing, since it was listed
                    status = os.stat(name, dir_fd=place, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        stack.append((os.open(name, DIRECTORY, dir_fd=place), path + "/"))
                    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                        continue
                    yield path, status
        finally:
            os.close(place)
