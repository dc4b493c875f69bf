"""Named points in the code at which a test can kill the head or the worker, as `kill -9` would."""

import os
import threading

CRASHED = 137  # exit code of a process that SIGKILL ended, as a shell shows it


class Failpoints:
    """Does nothing unless it is given a label to crash at. Any thread may reach a point."""

    def __init__(self, crash_at: str = "") -> None:
        """`crash_at` is `label`, or `label:n` for the n-th time that point is reached."""
        self._label, _, count = crash_at.partition(":")
        self._left = int(count or 1)
        self._lock = threading.Lock()

    def reach(self, label: str) -> None:
        if label != self._label:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os._exit(CRASHED)
