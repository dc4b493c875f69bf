"""Bells: how one thread tells others that something changed, so that nobody polls.

Who wants to know listens first and looks then, and so misses nothing that happens between.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SCHEDULER = "scheduler"  # something to place, or something became free
PREPARER = "preparer"  # a job to prepare
WATCHER = "watcher"  # a node's lease changed
KEEPER = "keeper"  # something to tidy up
CLEANER = "cleaner"  # nobody rings it: it works once a day
STATUS = "status"  # anything `pit status` shows


def job_bell(number: int) -> str:
    return f"job:{number}"


def node_bell(node_id: int) -> str:
    return f"node:{node_id}"


class Bells:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ears: defaultdict[str, set[threading.Event]] = defaultdict(set)
        self._closed = False
        # Of the status; from the clock, so that it goes on rising after a restart of the head.
        self.revision = time.time_ns() // 1_000_000

    @contextmanager
    def listen(self, name: str) -> Iterator[threading.Event]:
        """An event that is set whenever `name` rings."""
        ear = threading.Event()
        with self._lock:
            self._ears[name].add(ear)
            if self._closed:
                ear.set()
        try:
            yield ear
        finally:
            with self._lock:
                self._ears[name].discard(ear)
                if not self._ears[name]:
                    del self._ears[name]

    def ring(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self.revision += name == STATUS
                for ear in self._ears.get(name, ()):
                    ear.set()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Let everyone go who waits, now and from now on: the head is leaving."""
        with self._lock:
            self._closed = True
            for ears in self._ears.values():
                for ear in ears:
                    ear.set()
