"""The hash by which both ends check a transfer."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor

SHORT = 64 * 1024  # for less, another thread costs more than it saves
_pool = ThreadPoolExecutor(4, thread_name_prefix="hash")


class RunningHash:
    """A sha256 that is computed in another thread while the transfer goes on."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._pending: Future[None] | None = None

    def update(self, data: bytes) -> None:
        """Add data, which must not change afterwards; waits until earlier data is hashed."""
        self._wait()
        if len(data) <= SHORT:
            self._digest.update(data)
        else:
            self._pending = _pool.submit(self._digest.update, data)

    def hexdigest(self) -> str:
        self._wait()
        return self._digest.hexdigest()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None
