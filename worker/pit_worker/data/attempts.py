"""Directories of attempts on this node: who uses them, and which may be deleted. Undelivered data stays."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from pit_protocol.durations import DAY_S
from pit_protocol.system.retention_clock import RetentionClock
from pit_protocol.transport.rclone import MountError
from pit_worker.data.fuse_mounts import FuseMounts
from pit_worker.data.stage_out import undelivered
from pit_worker.spool.attempt_dir import ATTEMPTS, AttemptDir
from pit_worker.spool.entry import Entry, Key
from pit_worker.thread_pool import ThreadPool

KEPT_DAYS = 7  # how long undelivered data stays

log = logging.getLogger(__name__)


class AttemptDirs:
    """The loop registers users; a thread of its own deletes."""

    def __init__(self, spool: Path, fuse_mounts: FuseMounts) -> None:
        self.node = ""  # its name, known after the first session
        self._folder = spool / ATTEMPTS
        self._clock = RetentionClock(spool / "clock.json")
        self._fuse_mounts = fuse_mounts
        self._threads = ThreadPool("clear", 1)
        self._locks: dict[Path, threading.Lock] = defaultdict(threading.Lock)  # created by the loop only
        self._users: dict[Path, frozenset[Key]] = {}  # live processes of each directory
        self._settled: set[Path] = set()  # completely on the head

    def lock(self, place: AttemptDir) -> threading.Lock:
        """Held while working on a directory."""
        return self._locks[place.path]

    def add(self, place: AttemptDir, key: Key) -> None:
        """Register a user."""
        self._users[place.path] = self.users(place) | {key}
        self._settled.discard(place.path)

    def users(self, place: AttemptDir) -> frozenset[Key]:
        return self._users.get(place.path, frozenset())

    def settle(self, place: AttemptDir) -> None:
        """Mark it as delivered or given up: it may be deleted when nobody uses it."""
        self._settled.add(place.path)

    def release(self, live: Collection[Entry]) -> None:
        """Delete what none of these uses."""
        users: dict[Path, frozenset[Key]] = {}
        for entry in live:
            if place := AttemptDir.of(entry):
                users[place.path] = users.get(place.path, frozenset()) | {entry.key}
        self._users = users  # in one step: the thread reads it, too
        for place in self._places():
            if not self.users(place):
                self._threads.submit(partial(self._clear, place, self.lock(place)))

    def keep(self, place: AttemptDir, why: str) -> str:
        """Retain undelivered data; returns the reason and the location."""
        where = f"on node {self.node} for {KEPT_DAYS} days, in {place.path}"
        why = f"{why}; undelivered data is kept {where}"
        log.error("the data of %s: %s", place.path.name, why)
        try:
            place.keep(why)
        except OSError as error:
            log.error("%s is kept, but cannot be marked so: %s", place.path.name, error)
        return why

    def retry_retained(self, deliver: Callable[[AttemptDir], str]) -> None:
        """Try to deliver retained data with `deliver`, which returns the obstacle. Old data is deleted."""
        for place in self._places():
            if not self.users(place) and place.kept.exists():
                self._threads.submit(partial(self._retry_retained, place, self.lock(place), deliver))

    def _places(self) -> list[AttemptDir]:
        return [AttemptDir(path) for path in self._folder.iterdir()] if self._folder.is_dir() else []

    def _retry_retained(
        self, place: AttemptDir, lock: threading.Lock, deliver: Callable[[AttemptDir], str]
    ) -> None:
        try:
            if self._clock.now() - place.kept.stat().st_mtime > KEPT_DAYS * DAY_S:
                log.warning("the data of %s has expired and is deleted", place.path.name)
                self.settle(place)
            else:
                with lock:
                    if why := deliver(place) or undelivered(place):
                        log.info("the data of %s stays here: %s", place.path.name, why)
                        return
                log.info("the data of %s is on the head now", place.path.name)
            place.kept.unlink()
        except OSError as error:
            log.error("the data of %s, which was kept: %s", place.path.name, error)
        self._clear(place, lock)

    def _clear(self, place: AttemptDir, lock: threading.Lock) -> None:
        with lock:
            if self.users(place):
                return  # another process has started meanwhile
            try:
                self._fuse_mounts.end(place)
                if place.kept.exists():
                    return
                # Never delete what is nowhere else.
                if place.path not in self._settled and (left := undelivered(place)):
                    self.keep(place, left)
                    return
                place.clear()
                self._settled.discard(place.path)
            except (OSError, MountError) as error:
                log.error("the data of %s cannot be deleted: %s", place.path.name, error)
