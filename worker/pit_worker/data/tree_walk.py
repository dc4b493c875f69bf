"""Walking a directory that a job may change at the same time."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import NO_FOLLOW, DirectoryTree

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or replaced by something else
KINDS = {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
# What the owner needs to read it: root needs nothing, but others cannot read their own files without.
_NEEDED = {stat.S_IFREG: stat.S_IRUSR, stat.S_IFDIR: stat.S_IRWXU}


def walk(tree: DirectoryTree, unread: dict[str, str]) -> Iterator[tuple[str, os.stat_result]]:
    """All files, directories and links in `tree`; what disappears meanwhile is left out.

    Directories that cannot be read are added to `unread`.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            place = tree.directory(above.split("/")[:-1])
            found = [(name, _look(place, name)) for name in os.listdir(place)]  # noqa: PTH208 - by descriptor
        except Problem:
            continue  # replaced by a link or a file
        except OSError as error:
            if not above or error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise  # these say nothing about the directory
            if error.errno not in GONE:
                unread[above.rstrip("/")] = (error.strerror or str(error)).lower()
            continue
        for name, status in found:
            if status is None or not KINDS & {stat.S_IFMT(status.st_mode)}:
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(f"{above}{name}/")
            yield f"{above}{name}", status


def _look(place: int, name: str) -> os.stat_result | None:
    """The status of an entry, made readable for its owner; None if it is gone."""
    try:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        needed = _NEEDED.get(stat.S_IFMT(status.st_mode), 0)
        if needed & ~status.st_mode and 0 != os.geteuid() == status.st_uid:
            handle = os.open(name, os.O_PATH | NO_FOLLOW, dir_fd=place)
            try:
                # By descriptor, because the name may lead elsewhere by now.
                Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(status.st_mode) | needed)
                status = os.fstat(handle)
            finally:
                os.close(handle)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return None
    return status
