"""Threads for calls that block, so that the main loop does not."""

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class ThreadPool:
    """Runs tasks in order with at most `size` daemon threads; tasks are dropped when the worker exits."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._idle = 0

    def submit(self, task: Callable[[], None]) -> None:
        """Run it, in a new thread if all are busy and the pool is not full."""
        with self._lock:
            self._tasks.put(task)
            if self._idle < self._tasks.qsize() and self._started < self._size:
                self._started += 1
                name = f"{self._name}-{self._started}"
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
                log.exception("internal worker error")
