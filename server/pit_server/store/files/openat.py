"""Opening a path below a descriptor, without a race and without a link that leads out.

A path that is checked first and opened then can be swapped in between; here the kernel does both at once.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable

OPENAT2 = 437  # the system call's number, on every machine
NO_MAGICLINKS, BENEATH = 0x02, 0x08
MOST_TRIES = 100  # the kernel returns EAGAIN when a rename interferes
PLACE = os.O_PATH | os.O_DIRECTORY  # works without permission to read, too

_libc = ctypes.CDLL(None, use_errno=True)


def ask_kernel(root: int, path: str, flags: int) -> int:
    """Open by `openat2`: a link is followed only if it stays below `root`."""
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, BENEATH | NO_MAGICLINKS)
    for _ in range(MOST_TRIES):
        descriptor = int(_libc.syscall(OPENAT2, root, os.fsencode(path), how, len(how)))
        if descriptor >= 0:
            return descriptor
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)


def walk(root: int, path: str, flags: int) -> int:
    """For kernels before 5.6: name by name, following no link at all."""
    *above, last = path.split("/")
    place = os.dup(root)
    try:
        for name in above:
            below = os.open(name, PLACE | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = below
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)


def _choose() -> Callable[[int, str, int], int]:
    here = os.open("/", PLACE | os.O_CLOEXEC)
    try:
        os.close(ask_kernel(here, ".", PLACE))
    except OSError:
        return walk  # not available, or forbidden to this process
    finally:
        os.close(here)
    return ask_kernel


resolve = _choose()
