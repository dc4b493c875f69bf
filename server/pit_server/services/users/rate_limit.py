"""Rate limit of logins: failed attempts are counted per account and per address, over a minute."""

import threading
import time
from collections import deque
from collections.abc import Callable

from pit_protocol.problem import Problem

WINDOW_S = 60.0
MOST_KEYS = 100_000


class TooManyAttempts(Problem):
    """Carries the seconds until the next attempt is allowed."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too_many_tries", "too many attempts", f"wait {retry_after_s} s", status=429)
        self.retry_after_s = retry_after_s


class RateLimit:
    """Kept in memory: a restart of the head resets it, which hardly helps an attacker."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._lock = threading.Lock()
        self._tries: dict[str, deque[float]] = {}

    def take(self, *keys: str) -> None:
        """Count an attempt before it is made, so that concurrent ones count; may raise TooManyAttempts."""
        now = self._clock()
        with self._lock:
            if (wait_s := max(self._wait_s(key, now) for key in keys)) > 0:
                raise TooManyAttempts(int(wait_s) + 1)
            if len(self._tries) >= MOST_KEYS:
                self._tries = {key: tries for key, tries in self._tries.items() if now - tries[-1] < WINDOW_S}
            for key in keys:
                self._tries.setdefault(key, deque(maxlen=self._most)).append(now)

    def refund(self, *keys: str) -> None:
        """Uncount a successful attempt."""
        with self._lock:
            for key in keys:
                self._tries[key].pop()
                if not self._tries[key]:
                    del self._tries[key]

    def _wait_s(self, key: str, now: float) -> float:
        tries = self._tries.get(key)
        if tries is None or len(tries) < self._most:
            return 0.0
        return tries[0] + WINDOW_S - now
