"""Flushing a whole file system at once, where an fsync per file would be too slow."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)


def sync_filesystem(descriptor: int) -> None:
    """Flush everything that was written to the file system of an open file."""
    if _libc.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
