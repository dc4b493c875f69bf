"""A cache of recently verified passwords, so that not every request of a mount costs a bcrypt hash.

Passwords are not stored: only their HMAC with a key that never leaves this process.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

KEEP_S = 300.0
MOST = 1_000


class PasswordCache:
    """Shared by all requests. An entry is valid only while the account's password hash is unchanged."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[str, float]] = {}

    def keep(self, name: str, password: str, hashed: str) -> None:
        """Remember that this password was right for the account with this hash."""
        now = self._clock()
        with self._lock:
            if len(self._known) >= MOST:
                self._known = {digest: entry for digest, entry in self._known.items() if entry[1] > now}
            if len(self._known) < MOST:
                self._known[self._digest(name, password)] = hashed, now + KEEP_S

    def knows(self, name: str, password: str, hashed: str | None) -> bool:
        """Whether the password was right recently, and the account's hash is still the same."""
        with self._lock:
            entry = self._known.get(self._digest(name, password))
        if entry is None or hashed is None or entry[1] <= self._clock():
            return False
        return hmac.compare_digest(entry[0], hashed)

    def _digest(self, name: str, password: str) -> bytes:
        text = f"{len(name)}:{name}{password}".encode(errors="surrogatepass")
        return hmac.digest(self._key, text, hashlib.sha256)
