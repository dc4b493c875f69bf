"""WebDAV locks: in memory, for an hour at most, and bounded in number."""

import time
from http import HTTPStatus
from typing import Any

from wsgidav.dav_error import DAVError
from wsgidav.lock_man.lock_storage import LockStorageDict

LONGEST_S = 3600.0  # clients renew a lock long before
MOST = 10_000
MOST_OF_ONE = 1_000


class Locks(LockStorageDict):  # type: ignore[misc]
    """A restart of the head drops all locks, like it drops all connections."""

    def create(self, path: str, lock: dict[str, Any]) -> Any:
        lock["timeout"] = _bounded(lock.get("timeout"))
        held = [entry for entry in list(self._dict.values()) if isinstance(entry, dict)]
        if len(held) >= MOST:
            now = time.time()
            for entry in held:
                if entry["expire"] < now:
                    self.delete(entry["token"])
        mine = sum(entry["principal"] == lock["principal"] for entry in held)
        if mine >= MOST_OF_ONE or len(self._dict) >= 2 * MOST:
            raise DAVError(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many locks")
        return super().create(path, lock)

    def refresh(self, token: str, *, timeout: float) -> Any:
        return super().refresh(token, timeout=_bounded(timeout))


def _bounded(timeout: float | None) -> float:
    return LONGEST_S if timeout is None or not 0 < timeout <= LONGEST_S else timeout
