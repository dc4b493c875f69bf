"""Removes the least recently used Python environments when all together need too much disk space.

Users' processes may write anything into their directories: no name, link or type of file there is trusted.
"""

import fcntl
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from pit_protocol.system import tree_delete
from pit_worker.loop import Loop
from pit_worker.spool.entry import Entry, Key
from pit_worker.timing import Timing
from pit_worker.venv.cache import VenvCache

LOCK = ".lock"
KIB_PER_GIB = 1024 * 1024
TOO_LARGE = (
    "the Python environments of its user need more disk space than this node has for all (venv_cache_gib)"
)

log = logging.getLogger(__name__)

Measure = Callable[[Path], int]  # KiB below a directory


class EvictionTimer:
    """Looks at the size in a thread of its own, as long as jobs with an environment run, and once after."""

    def __init__(
        self,
        loop: Loop,
        cache: VenvCache,
        evict: Callable[[], list[Path]],
        list_entries: Callable[[], Collection[Entry]],
        on_excess: Callable[[Key, str], None],
        timing: Timing,
    ) -> None:
        """`on_excess` is called for a process whose user alone needs more than all may have."""
        self._loop = loop
        self._cache = cache
        self._evict = evict
        self._list_entries = list_entries
        self._on_excess = on_excess
        self._timing = timing
        self._is_due = True

    def start(self) -> None:
        """Look now, and from then on at intervals."""
        has_venvs = any(entry.intent.spec and entry.intent.spec.venv for entry in self._list_entries())
        if self._is_due or has_venvs:
            threading.Thread(target=self._run, name="venvs", daemon=True).start()
        else:
            self._loop.after(self._timing.disk_check_s, self.start)
        self._is_due = has_venvs

    def _run(self) -> None:
        began = time.monotonic()
        too_large: list[Path] = []
        try:
            too_large = self._evict()
        except Exception:
            log.exception("internal worker error")
        pause_s = max(self._timing.disk_check_s, self._timing.disk_rest * (time.monotonic() - began))
        self._loop.post(lambda: self._on_evicted(too_large, pause_s))

    def _on_evicted(self, too_large: Collection[Path], pause_s: float) -> None:
        self._loop.after(pause_s, self.start)
        for entry in self._list_entries() if too_large else ():
            spec = entry.intent.spec
            if spec and spec.venv:
                place = self._cache.user_dir(entry.intent.cluster, spec.venv, spec.account)
                if place in too_large:
                    self._on_excess(entry.key, TOO_LARGE)


def evict(folder: Path, most_gib: int, measure_kib: Measure) -> list[Path]:
    """Remove the least recently used until the rest is within the limit, but none in use; blocks.

    Returns directories of users that alone are larger than the limit, because what is in them is in use.
    """
    most_kib = most_gib * KIB_PER_GIB
    if not most_kib or not folder.is_dir():
        return []
    try:
        is_too_large = measure_kib(folder) > most_kib
        for item in _list_oldest_first(folder) if is_too_large else ():
            # Files may be shared with others, so what was freed has to be measured.
            if _remove_unused(item):
                is_too_large = measure_kib(folder) > most_kib
            if not is_too_large:
                break
        users = _list_users(folder) if is_too_large else ()
        return [user for user in users if measure_kib(user) > most_kib]
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("Python environments in %s could not be measured or removed: %s", folder, error)
        return []


def _list_oldest_first(folder: Path) -> list[Path]:
    """Everything in users' directories, except lock files of something."""
    found = []
    for user in _list_users(folder):
        names = {path.name for path in _list(user)}
        found += [user / name for name in names if name.removesuffix(LOCK) not in names - {name}]
    return sorted(found, key=_used_at)


def _list_users(folder: Path) -> list[Path]:
    return [user for cluster in _list(folder) for user in _list(cluster)]


def _list(folder: Path) -> list[Path]:
    with suppress(NotADirectoryError, FileNotFoundError):
        return list(folder.iterdir())
    return []


def _used_at(item: Path) -> float:
    """When it was last used, by the one time of a file that users cannot set."""
    for path in (_lock_file(item), item):
        with suppress(FileNotFoundError):
            return path.lstat().st_ctime
    return 0.0


def _lock_file(item: Path) -> Path:
    return item.with_name(item.name + LOCK)


def _remove_unused(item: Path) -> bool:
    """Remove it, unless a process uses it; whoever builds or uses it has made and locked its file first."""
    lock = _lock(_lock_file(item))
    if lock is None:
        return False
    try:
        if not tree_delete.delete(item):
            raise OSError("something of it cannot be deleted")
        _lock_file(item).unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s could not be removed: %s", item, error)
        return False
    finally:
        os.close(lock)
    log.info("removed %s to free disk space", item)
    return True


def _lock(file: Path) -> int | None:
    """A descriptor with the lock; None if a process has it."""
    try:
        # Not waiting: it may be a pipe.
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
