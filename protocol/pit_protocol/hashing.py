"""The hash by which both ends of a transfer know that it went well."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor

SHORT = 64 * 1024  # up to here another thread costs more than it saves
_pool = ThreadPoolExecutor(4, thread_name_prefix="hash")


class RunningHash:
    """A sha256 that is computed beside the transfer: reading and writing go on meanwhile."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._pending: Future[None] | None = None

    def update(self, data: bytes) -> None:
        """Add what must not be changed afterwards; waits for what was added before."""
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
