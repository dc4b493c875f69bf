"""A PID namespace for the next child. `namespace.py DIRECTORY…` tries it; an error says why it cannot be."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path += sys.argv[1:]

from pit_worker import kernel
from pit_worker.supervisor.command import mount_proc


def begin() -> int:
    """Let the next child be the first process of a new namespace; a descriptor of the own one, to `leave`."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    kernel.unshare(kernel.CLONE_NEWPID)
    return own


def leave(own: int) -> None:
    """Have the next child here again: the kernel starts no thread while it would be elsewhere."""
    kernel.set_namespace(own, kernel.CLONE_NEWPID)
    os.close(own)


def attempt() -> str:
    """Why none can be made; empty if it can."""
    try:
        own = begin()
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            _attempt_inside(writer)
        leave(own)
        os.close(writer)
        answer = os.read(reader, 4096).decode()
        os.waitpid(pid, 0)
    except OSError as error:
        return str(error.strerror).lower()
    return answer


def _attempt_inside(writer: int) -> None:
    try:
        mount_proc()
    except OSError as error:
        os.write(writer, str(error.strerror).lower().encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(attempt() or 0)
