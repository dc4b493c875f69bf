"""The worker's main loop: descriptors, timers and calls from other threads, one after another."""

import heapq
import itertools
import logging
import os
import queue
import selectors
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Call = Callable[[], None]


class Timer:
    def __init__(self, call: Call) -> None:
        self.call: Call | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """Makes all calls in the thread that runs it; only `post` and `leave` may be used from others."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._posted: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._exit_code: int | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self._wake, self._run_posted)

    def run(self) -> int:
        """Run until `leave` is called; the exit code it was given."""
        while self._exit_code is None:
            self._turn()
        return self._exit_code

    def leave(self, exit_code: int) -> None:
        self._exit_code = exit_code
        os.eventfd_write(self._wake, 1)

    def post(self, call: Call) -> None:
        self._posted.put(call)
        os.eventfd_write(self._wake, 1)

    def after(self, delay_s: float, call: Call) -> Timer:
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._count), timer))
        return timer

    def watch(self, descriptor: int, call: Call) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def unwatch(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def close(self) -> None:
        self._selector.close()
        os.close(self._wake)

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._timeout_s()):
            # An earlier call may have unwatched it, and another file may have its number by now.
            current = self._selector.get_map().get(key.fd)
            if current and current.data is key.data:
                _run(key.data)
        # Only what is due now: a timer that sets itself again must not starve the descriptors.
        now = time.monotonic()
        due = []
        while self._timers and self._timers[0][0] <= now:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            if timer.call:
                _run(timer.call)

    def _timeout_s(self) -> float | None:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _run_posted(self) -> None:
        os.eventfd_read(self._wake)
        while True:
            try:
                call = self._posted.get_nowait()
            except queue.Empty:
                return
            _run(call)


def _run(call: Call) -> None:
    try:
        call()
    except Exception:
        log.exception("internal worker error")
