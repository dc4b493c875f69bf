"""Rate limit of logins: failed attempts are counted per address and per account, over a minute."""

import ipaddress
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from pit_protocol.problem import Problem

WINDOW_S = 60.0
MOST_KEYS = 100_000
IPV6_NETWORK = 64  # bits of the address that one customer of a provider cannot choose


class TooManyAttempts(Problem):
    """Carries the seconds until the next attempt is allowed."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too_many_tries", "too many attempts", f"wait {retry_after_s} s", status=429)
        self.retry_after_s = retry_after_s


class RateLimit:
    """Kept in memory: a restart of the head resets it, which hardly helps an attacker."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tries: dict[str, deque[float]] = {}

    def take(self, limits: Mapping[str, int]) -> None:
        """Count an attempt before it is made, so that concurrent ones count; may raise TooManyAttempts.

        `limits` has what to count it for, with how many there may be in a minute.
        """
        now = self._clock()
        with self._lock:
            if (wait_s := max(self._wait_s(key, most, now) for key, most in limits.items())) > 0:
                raise TooManyAttempts(int(wait_s) + 1)
            if len(self._tries) >= MOST_KEYS:
                self._tries = {key: tries for key, tries in self._tries.items() if now - tries[-1] < WINDOW_S}
            for key, most in limits.items():
                self._tries.setdefault(key, deque(maxlen=most)).append(now)

    def refund(self, keys: Iterable[str]) -> None:
        """Uncount a successful attempt."""
        with self._lock:
            for key in keys:
                self._tries[key].pop()
                if not self._tries[key]:
                    del self._tries[key]

    def _wait_s(self, key: str, most: int, now: float) -> float:
        tries = self._tries.get(key)
        if tries is None or len(tries) < most:
            return 0.0
        return tries[0] + WINDOW_S - now


def network_of(address: str) -> str:
    """The address, or the network of an IPv6 address, of which one client has many."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(ipaddress.ip_network((found, IPV6_NETWORK), strict=False))
