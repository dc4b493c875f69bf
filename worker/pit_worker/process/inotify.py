"""Notice from the kernel when files in a directory grow, so that output need not be polled."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

MODIFY = 0x2
BUFFER = 64 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Watched directories, each with a number; `fd` is readable when a file in one has grown."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, directory: Path) -> int:
        return _checked(_libc.inotify_add_watch(self.fd, os.fsencode(directory), MODIFY))

    def remove(self, number: int) -> None:
        """Stop watching; a number that the kernel has dropped (its directory is gone) is fine."""
        _libc.inotify_rm_watch(self.fd, number)

    def drain(self) -> None:
        """Read all events: `fd` is not readable until a file grows again."""
        # Which file it was does not matter: checking a file's size is cheaper than keeping track.
        with suppress(BlockingIOError):
            while len(os.read(self.fd, BUFFER)) > BUFFER // 2:
                pass

    def close(self) -> None:
        os.close(self.fd)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
