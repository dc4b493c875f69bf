"""Renaming without replacing what may have appeared under the new name meanwhile."""

import ctypes
import errno
import os
from pathlib import Path

from pit_protocol.atomic_file import sync_directory

AT_FDCWD = -100
NOREPLACE = 1
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EPERM)

_libc = ctypes.CDLL(None, use_errno=True)


def move_new(source: Path, target: Path | str, parent: int | None = None) -> None:
    """Move something to a new name, below the descriptor `parent` if there is one; it lasts if this returns.

    Raises FileExistsError if there is something, also if that has just appeared. Only where the file
    system cannot do both at once (NFS), something that appears between check and move is replaced, and
    that is a file or an empty directory.
    """
    try:
        _rename_new(source, target, AT_FDCWD if parent is None else parent)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        _check_then_rename(source, target, parent)
    sync_directory(Path(target).parent if parent is None else parent)
    sync_directory(source.parent)


def _rename_new(source: Path, target: Path | str, parent: int) -> None:
    names = os.fsencode(source), os.fsencode(target)
    if not hasattr(_libc, "renameat2"):  # musl before 1.2.6
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _libc.renameat2(AT_FDCWD, names[0], parent, names[1], NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(target))


def _check_then_rename(source: Path, target: Path | str, parent: int | None) -> None:
    try:
        os.stat(target, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, dst_dir_fd=parent)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
