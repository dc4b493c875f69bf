"""The node's lease: a file with the time of its last contact with the head, for the watchdogs of processes.

The time is since boot, because nobody sets that clock. The file is written in place: containers have it
bind-mounted, and a bind mount keeps showing the old file after a rename.
"""

import logging
import math
import os
import threading
import time
from pathlib import Path

FILE_NAME = "lease"
WIDTH = 20  # characters, so that a new value is never shorter than the old one

log = logging.getLogger(__name__)


class Lease:
    """Any thread may renew it."""

    def __init__(self, spool: Path) -> None:
        self._file = os.open(spool / FILE_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.fchmod(self._file, 0o644)
        self._contact_at = -1
        self._lock = threading.Lock()

    def renew(self, asked_at: float) -> None:
        """The head has answered a request that was sent at that time; the lease counts from then."""
        with self._lock:
            # Rounded up, so that a short lease does not expire before the next contact is due.
            if (contact_at := math.ceil(asked_at)) > self._contact_at:
                self._contact_at = contact_at
                self._write(f"{self._contact_at:<{WIDTH}}\n".encode())

    def _write(self, line: bytes) -> None:
        try:
            os.pwrite(self._file, line, 0)
        except OSError as error:
            # The self-check reports it. Leases that cannot be renewed end their processes in time.
            log.error("the lease cannot be written: %s", error)


def since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
