"""A signal only for those programs that handle it: others would die of it, such as a shell without a trap."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def send(list_pids: Callable[[], set[int]], number: int) -> int:
    """Signal the listed programs that handle it; how many there were."""
    handles: dict[int, int] = {}
    for pid in list_pids():
        with suppress(ProcessLookupError):
            handles[pid] = os.pidfd_open(pid)
    # A program that is still listed after it was opened does not have a reused id.
    current, reached = list_pids(), 0
    for pid, handle in handles.items():
        if pid in current and handles_signal(pid, number):
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, number)
                reached += 1
        os.close(handle)
    return reached


def handles_signal(pid: int, number: int) -> bool:
    """Whether a program has a handler for the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    mask = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(mask >> (number - 1) & 1)
