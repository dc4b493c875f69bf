"""Threads for calls that take their time, so that the worker's loop need not wait for them."""

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Crew:
    """So many threads at most; what is given to it is done in order, and dropped when the worker leaves."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._hands = 0
        self._idle = 0

    def do(self, task: Callable[[], None]) -> None:
        """Have it done, by a new thread if all are busy and one more may be."""
        with self._lock:
            self._tasks.put(task)
            if self._idle < self._tasks.qsize() and self._hands < self._size:
                self._hands += 1
                name = f"{self._name}-{self._hands}"
                threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            task = self._tasks.get()
            with self._lock:
                self._idle -= 1
            try:
                task()
            except Exception:
                log.exception("a mistake of the worker's own")
