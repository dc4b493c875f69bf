"""Tries whether PID namespaces can be made here: `namespace.py DIRECTORY…`; an error says why not."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path += sys.argv[1:]

from pit_worker import kernel
from pit_worker.supervisor.command import mount_proc


def attempt() -> str:
    """Why none can be made; empty if it can."""
    try:
        kernel.unshare(kernel.CLONE_NEWPID)
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            _attempt_inside(writer)
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
