"""What one user may take of the head at a time: held requests, transfers, requests per second."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from pit_protocol.problem import Problem
from pit_server.settings import Settings
from pit_server.traffic import Traffic

MOST_USERS = 10_000  # whose last second is remembered


class RequestLimits:
    """Shared by all requests; kept in memory."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = {
            Traffic.HELD: settings.user_held,
            Traffic.SESSION: settings.user_sessions,
            Traffic.TRANSFER: settings.user_transfers,
        }
        self._per_second = settings.user_requests_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._open: Counter[tuple[int, Traffic]] = Counter()
        self._second = 0
        self._recent: Counter[int] = Counter()  # requests of each user in this second

    def begin(self, user_id: int, traffic: Traffic) -> Callable[[], None]:
        """Count a request; returns what ends it, which may be called more than once. Raises a Problem."""
        key = (user_id, traffic)
        with self._lock:
            self._count(user_id)
            if key[1] not in self._most:
                return lambda: None
            if self._open[key] >= self._most[traffic]:
                raise _too_many(f"{self._most[traffic]} {NAMES[traffic]} at a time", "end some of them")
            self._open[key] += 1
        return _Once(lambda: self._end(key))

    def _count(self, user_id: int) -> None:
        second = int(self._clock())
        if second != self._second or len(self._recent) > MOST_USERS:
            self._second = second
            self._recent.clear()
        self._recent[user_id] += 1
        if self._recent[user_id] > self._per_second:
            raise _too_many(f"{self._per_second:,} requests per second", "slow down")

    def _end(self, key: tuple[int, Traffic]) -> None:
        with self._lock:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


NAMES = {
    Traffic.HELD: "followed logs and watched lists",
    Traffic.SESSION: "sessions in processes",
    Traffic.TRANSFER: "transfers",
}


class _Once:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call:
            call()


def _too_many(what: str, hint: str) -> Problem:
    return Problem("too_many_requests", f"you may have {what}", hint, status=429)
