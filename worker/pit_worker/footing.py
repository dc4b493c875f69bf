"""Steps in a directory that a job can change at the same time: each by descriptor, and past no link."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or another thing than it was
KINDS = {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
# What its owner needs to read it: root needs nothing, but others cannot read their own files without.
_WANTED = {stat.S_IFREG: stat.S_IRUSR, stat.S_IFDIR: stat.S_IRWXU}


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


def walk(root: int, unread: dict[str, str]) -> Iterator[tuple[str, os.stat_result]]:
    """All below `root`: files, directories and links; what is gone since it was listed is left out.

    Directories that cannot be read are noted in `unread`. One descriptor is open for each level at
    most: a directory may hold more of them than a process may open.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            with _opened(root, above) as place:
                found = [(name, _look(place, name)) for name in os.listdir(place)]  # noqa: PTH208 - by descriptor
        except OSError as error:
            if not above or error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise  # the latter say nothing of the directory
            if error.errno not in GONE:
                unread[above.rstrip("/")] = (error.strerror or str(error)).lower()
            continue
        for name, status in found:
            if status is None or not KINDS & {stat.S_IFMT(status.st_mode)}:
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(f"{above}{name}/")
            yield f"{above}{name}", status


@contextmanager
def _opened(root: int, path: str) -> Iterator[int]:
    """A directory below `root`; `path` is empty or ends with a slash."""
    with parent_of(root, path) as (place, _):
        yield place


def _look(place: int, name: str) -> os.stat_result | None:
    """How it looks, made readable for its owner; None if it is gone."""
    try:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        wanted = _WANTED.get(stat.S_IFMT(status.st_mode), 0)
        if wanted & ~status.st_mode and 0 != os.geteuid() == status.st_uid:
            handle = os.open(name, os.O_PATH | NO_FOLLOW, dir_fd=place)
            try:
                # By the descriptor, for the name may lead elsewhere by now.
                Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(status.st_mode) | wanted)
                status = os.fstat(handle)
            finally:
                os.close(handle)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return None
    return status
