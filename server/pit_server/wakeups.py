"""Wakeups: one thread notifies others of a change, so that nothing has to poll.

Subscribe first, then read the state: a change in between still sets the waiter.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Topics.
SCHEDULER = "scheduler"  # there is a job to place, or a resource became free
ESTIMATING = "estimating"  # the scheduler has made reservations, or has started jobs that waited
PREPARER = "preparer"  # there is a job to prepare
NODE_WATCH = "node_watch"  # a node's lease changed
DATA_GC = "data_gc"  # never notified: runs once a day
JOB_SPACE = "job_space"  # never notified: measures every few minutes
DISK_WATCH = "disk_watch"  # never notified: looks every few seconds
PURGE = "purge"  # something was deleted for good, and its files are to go
NOTIFIER = "notifier"  # there is a message to send
CLOCK = "clock"  # never notified: runs once an hour
LOCK_WATCH = "lock_watch"  # never notified: looks every few seconds
CODE_GC = "code_gc"  # never notified: runs once a day
STATUS = "status"  # anything `pit status` shows has changed
ACCESS = "access"  # who may do what has changed


def job_topic(number: int) -> str:
    return f"job:{number}"


def end_topic(number: int) -> str:
    """Of a job's end alone: who waits for that need not look at each of its changes."""
    return f"end:{number}"


def node_topic(node_id: int) -> str:
    return f"node:{node_id}"


def site_topic(site_id: int) -> str:
    return f"site:{site_id}"


class Wakeups:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: defaultdict[str, set[threading.Event]] = defaultdict(set)
        self._closed = False
        # Counts status changes. It starts from the clock, so that it keeps rising across restarts.
        self.revision = time.time_ns() // 1_000_000
        self.access_revision = 0

    @contextmanager
    def subscribe(self, topic: str, waiter: threading.Event | None = None) -> Iterator[threading.Event]:
        """Yield an event, the given one or a new one, that is set on every notification of `topic`."""
        waiter = waiter or threading.Event()
        with self._lock:
            self._waiters[topic].add(waiter)
            if self._closed:
                waiter.set()
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters[topic].discard(waiter)
                if not self._waiters[topic]:
                    del self._waiters[topic]

    def notify(self, topics: Iterable[str]) -> None:
        with self._lock:
            for topic in topics:
                self.revision += topic == STATUS
                self.access_revision += topic == ACCESS
                for waiter in self._waiters.get(topic, ()):
                    waiter.set()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Wake all current and future waiters, because the head is shutting down."""
        with self._lock:
            self._closed = True
            for waiters in self._waiters.values():
                for waiter in waiters:
                    waiter.set()
