"""Deleting a directory that users and jobs may still change: by descriptor, following no link.

Directories are moved up to the top one before they are emptied. So depth costs neither descriptors nor
recursion, and a deletion that is interrupted leaves everything below the same name.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from pit_protocol.transport.dirfd import NO_FOLLOW

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW


def delete(path: Path) -> bool:
    """Delete a file, link or directory; False if something is left. No one else may replace `path.parent`."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        _delete(parent, path.name)
        return not _exists(parent, path.name)
    finally:
        os.close(parent)


def _delete(parent: int, name: str) -> None:
    if not _unlink(parent, name):
        return
    with suppress(OSError):
        top = _open(parent, name)
        try:
            waiting = _empty(top, top)
            while waiting:
                _delete_one(top, waiting.pop(), waiting)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)


def _delete_one(top: int, name: str, waiting: list[str]) -> None:
    with suppress(OSError):  # the others can still be deleted
        directory = _open(top, name)
        try:
            waiting += _empty(directory, top)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=top)


def _empty(directory: int, top: int) -> list[str]:
    """Unlink what is in a directory, and move the directories in it to the top; returns their names there."""
    moved = []
    for name in os.listdir(directory):
        with suppress(OSError):
            if not _unlink(directory, name):
                continue
            if directory == top:
                moved.append(name)
                continue
            _open_up(directory, name)
            new = f".pit-deleted-{secrets.token_hex(12)}"
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
            moved.append(new)
    return moved


def _unlink(parent: int, name: str) -> bool:
    """Unlink anything but a directory; True if it is one."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return True
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        return error.errno == errno.EISDIR
    return False


def _open(parent: int, name: str) -> int:
    _open_up(parent, name)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _open_up(parent: int, name: str) -> None:
    """Let the head write to a directory of its own; root needs no permission."""
    if os.geteuid() == 0:
        return
    handle = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=parent)
    try:
        with suppress(OSError):
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
    finally:
        os.close(handle)


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
