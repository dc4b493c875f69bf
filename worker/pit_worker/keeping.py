"""Places of attempts on this node: who uses them, and which may be deleted; what is nowhere else stays."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from pit_protocol.rclone import MountError
from pit_worker.attempt_place import ATTEMPTS, AttemptPlace
from pit_worker.crew import Crew
from pit_worker.delivery import undelivered
from pit_worker.entry import Entry, Key
from pit_worker.guards import Guards

KEPT_DAYS = 7  # as long as something stays that the head did not take

log = logging.getLogger(__name__)


class Keeping:
    """The loop says who uses what; a thread of its own clears away."""

    def __init__(self, spool: Path, guards: Guards) -> None:
        self.node = ""  # its name, once the head has told it
        self._folder = spool / ATTEMPTS
        self._guards = guards
        self._crew = Crew("clear", 1)
        self._locks: dict[Path, threading.Lock] = defaultdict(threading.Lock)  # made by the loop alone
        self._users: dict[Path, frozenset[Key]] = {}  # processes of a place that have not ended
        self._settled: set[Path] = set()  # of which all is on the head

    def lock(self, place: AttemptPlace) -> threading.Lock:
        """Held by who works on a place."""
        return self._locks[place.path]

    def add(self, place: AttemptPlace, key: Key) -> None:
        """One more that uses it."""
        self._users[place.path] = self.users(place) | {key}
        self._settled.discard(place.path)

    def users(self, place: AttemptPlace) -> frozenset[Key]:
        return self._users.get(place.path, frozenset())

    def settle(self, place: AttemptPlace) -> None:
        """All of it is on the head, or it is given up: it may be deleted when nobody uses it."""
        self._settled.add(place.path)

    def release(self, live: Collection[Entry]) -> None:
        """Clear away what none of these uses."""
        users: dict[Path, frozenset[Key]] = {}
        for entry in live:
            if place := AttemptPlace.of(entry):
                users[place.path] = users.get(place.path, frozenset()) | {entry.key}
        self._users = users  # in one step: the thread looks there, too
        for place in self._places():
            if not self.users(place):
                self._crew.do(partial(self._clear, place, self.lock(place)))

    def keep(self, place: AttemptPlace, why: str) -> str:
        """Let stay what is not on the head; the reason, and where it is."""
        where = f"on node {self.node} for {KEPT_DAYS} days, in {place.path}"
        why = f"{why}; what is not on the head is kept {where}"
        log.error("the data of %s: %s", place.path.name, why)
        try:
            place.keep(why)
        except OSError as error:
            log.error("%s cannot be noted as kept, and is all the same: %s", place.path.name, error)
        return why

    def try_late(self, deliver: Callable[[AttemptPlace], str]) -> None:
        """Let what was kept be delivered; `deliver` says what is in the way. What is old is deleted."""
        for place in self._places():
            if not self.users(place) and place.kept.exists():
                self._crew.do(partial(self._try_late, place, self.lock(place), deliver))

    def _places(self) -> list[AttemptPlace]:
        return [AttemptPlace(path) for path in self._folder.iterdir()] if self._folder.is_dir() else []

    def _try_late(
        self, place: AttemptPlace, lock: threading.Lock, deliver: Callable[[AttemptPlace], str]
    ) -> None:
        try:
            if time.time() - place.kept.stat().st_mtime > KEPT_DAYS * 86_400:
                log.warning("the data of %s was kept for long enough, and is deleted", place.path.name)
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

    def _clear(self, place: AttemptPlace, lock: threading.Lock) -> None:
        with lock:
            if self.users(place):
                return  # another process of it has come meanwhile
            try:
                self._guards.end(place)
                if place.kept.exists():
                    return
                # Whatever led here: what is nowhere else is not deleted.
                if place.path not in self._settled and (left := undelivered(place)):
                    self.keep(place, left)
                    return
                place.clear()
                self._settled.discard(place.path)
            except (OSError, MountError) as error:
                log.error("the data of %s cannot be cleared away: %s", place.path.name, error)
