"""Names and passwords that were right a moment ago, so that not every request of a mount costs a hash.

Nothing of a password is kept: only what it makes together with a key that no other process has.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

KEEP_S = 300.0
MOST = 1_000


class Remembered:
    """Shared by all requests; good only as long as the account has the very hash it had then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[str, float]] = {}

    def keep(self, name: str, password: str, hashed: str) -> None:
        """Note that this password was right for the account with this hash."""
        now = self._clock()
        with self._lock:
            if len(self._known) >= MOST:
                self._known = {mark: entry for mark, entry in self._known.items() if entry[1] > now}
            if len(self._known) < MOST:
                self._known[self._mark(name, password)] = hashed, now + KEEP_S

    def knows(self, name: str, password: str, hashed: str | None) -> bool:
        """Whether it was right a moment ago, and the account's hash is still the same."""
        with self._lock:
            entry = self._known.get(self._mark(name, password))
        if entry is None or hashed is None or entry[1] <= self._clock():
            return False
        return hmac.compare_digest(entry[0], hashed)

    def _mark(self, name: str, password: str) -> bytes:
        text = f"{len(name)}:{name}{password}".encode(errors="surrogatepass")
        return hmac.digest(self._key, text, hashlib.sha256)
