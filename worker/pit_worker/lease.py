"""The node's lease: a file with the time of its last word with the head, for the dead-men of processes.

By the clock since boot, which nobody sets. It is written in place: containers have it bound, and a
bound file stays the one it was.
"""

import math
import os
import threading
import time
from pathlib import Path

FILE_NAME = "lease"
SCRIPT = Path(__file__).with_name("lease.sh")
WIDTH = 20  # characters, so that what is written is never shorter than what was


class Lease:
    """Any thread may renew it."""

    def __init__(self, spool: Path) -> None:
        self._file = os.open(spool / FILE_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.fchmod(self._file, 0o644)
        self._heard_at = -1
        self._lock = threading.Lock()

    def renew(self, asked_at: float) -> None:
        """The head has answered what it was asked at that time; from then on it counts, too."""
        with self._lock:
            # Up, so that a short lease is not over before the next word is due.
            if (heard_at := math.ceil(asked_at)) > self._heard_at:
                self._heard_at = heard_at
                os.pwrite(self._file, f"{self._heard_at:<{WIDTH}}\n".encode(), 0)


def since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
