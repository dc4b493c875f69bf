"""Writing so that it is all there, and stays when the power goes."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write to the end: a disk that gets full takes some and says nothing, and fails with what is left."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(place: int) -> None:
    """Make the names in a directory last; its descriptor may be one that is only good to go on from."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_filesystem(descriptor: int) -> None:
    """Make everything last that was written to the file system of an open file: one call for many files."""
    if _libc.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
