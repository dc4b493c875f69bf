"""Making SHARED_DIR read-only even for root, in a mount namespace of the worker's own."""

import ctypes
import logging
import os
from pathlib import Path

CLONE_NEWNS = 0x20000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000

log = logging.getLogger(__name__)
_libc = ctypes.CDLL(None, use_errno=True)


def protect(shared: Path) -> bool:
    """Make `shared` read-only for children of this thread; False if only file modes protect it.

    The thread gets a mount namespace of its own, so nobody else on the machine sees the change;
    mounts made outside later are still visible.
    """
    if not shared.is_dir():
        log.warning("there is no %s; nothing to make read-only", shared)
        return False
    try:
        _call(_libc.unshare(CLONE_NEWNS))
        _mount(None, Path("/"), MS_REC | MS_SLAVE)
        _mount(shared, shared, MS_BIND | MS_REC)
        _mount(None, shared, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    except OSError as error:
        log.warning("%s is protected by file modes only: no mount namespace (%s)", shared, error.strerror)
        return False
    log.info("%s is mounted read-only for processes", shared)
    return True


def _mount(source: Path | None, target: Path, flags: int) -> None:
    from_bytes = os.fsencode(source) if source else None
    _call(_libc.mount(from_bytes, os.fsencode(target), None, ctypes.c_ulong(flags), None))


def _call(answer: int) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
