"""Data of nodes without the head's files: job directories are copied, the user's data is mounted.

What an attempt needs is there before its first process begins, and what it has written is on the head
before the end of a process is told. Every step can be repeated, so a worker can be killed at any line.
"""

import errno
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pit_protocol.beat import Account, Order, ProcessSpec, Welcome
from pit_protocol.problem import Problem
from pit_protocol.rclone import MountError
from pit_worker import crash, manifest, tar_streams
from pit_worker.attempt_place import AttemptPlace, localise
from pit_worker.backoff import Backoff
from pit_worker.carrier import Delivered, Fetched, Waiting
from pit_worker.crew import Crew
from pit_worker.delivery import GUARD_LOST, Delivery, Waits, undelivered
from pit_worker.entry import Entry, Key
from pit_worker.environment import StartRefused
from pit_worker.guards import Guards
from pit_worker.hauling import Haul, Refused
from pit_worker.head import HeadError
from pit_worker.keeping import Keeping
from pit_worker.loop import Loop, Timer
from pit_worker.settings import REMOTE, Settings

AT_ONCE = 8
QUIET_TRIES = 5  # while the head is away, before a job's log tells of it
MOST_PAUSE_S = 10.0  # between two tries to deliver
LATE_S = 6 * 3600.0  # between two tries to deliver what was kept

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Errand:
    """What a process has written, on its way to the head."""

    place: AttemptPlace
    account: Account | None
    delivered: Delivered
    waiting: Waiting
    pace: Backoff = field(default_factory=lambda: Backoff(most_s=MOST_PAUSE_S))
    tries: int = 0
    timer: Timer | None = None
    said: str = ""

    def is_news(self, waits: Waits) -> bool:
        """Whether this is another reason than the last; that sizes differ is none."""
        told = re.sub(r"[\d.,]+ [KMGT]?i?[Bb]\w*", "…", str(waits))
        before, self.said = self.said, "full" if waits.is_head_full else told
        return before != self.said


class Remote:
    """A Carrier. Its threads talk with the head and with mounts; the loop never does."""

    def __init__(self, loop: Loop, settings: Settings, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._settings = settings
        self._guards = Guards(settings)
        self._crew = Crew("carry", AT_ONCE)
        self._keeping = Keeping(settings.spool, self._guards)
        self._epoch = 0
        self._welcomed = threading.Event()
        self._watched: dict[Path, list[Callable[[], None]]] = {}
        self._changed = changed
        self._errands: dict[Key, Errand] = {}
        self._full: dict[Path, str] = {}  # whose results a full head does not take

    @property
    def trouble(self) -> str:
        return next((f"the head takes no results: {why}" for why in self._full.values()), "")

    def welcome(self, welcome: Welcome) -> None:
        self._epoch = welcome.epoch
        self._keeping.node = welcome.node
        self._welcomed.set()
        self._loop.after(0, self._bring_late)  # when it is known what lives

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        if order.spec is None:
            return home.data_root, None
        if self._settings.data_root != REMOTE:
            return self._settings.data_root or home.data_root, order.spec
        place = AttemptPlace.named(self._settings.spool, order.spec.job, order.attempt)
        return str(place.path), localise(order.spec)

    def fetch(self, entry: Entry, fetched: Fetched) -> None:
        place, spec = AttemptPlace.of(entry), entry.intent.spec
        if place is None or spec is None:
            fetched(None)
            return
        self._keeping.add(place, entry.key)
        lock = self._keeping.lock(place)

        def fetch() -> None:
            with lock:
                outcome = self._try_fetch(place, spec.account)
            self._loop.post(lambda: fetched(outcome))

        self._crew.do(fetch)

    def attend(self, entry: Entry, lost: Callable[[], None]) -> None:
        place = AttemptPlace.of(entry)
        if place is None:
            return
        self._keeping.add(place, entry.key)
        if place.path in self._watched:
            self._watched[place.path].append(lost)
            return
        if (handle := self._guards.open(place)) is None:
            self._note_lost(place)
            self._loop.after(0, lost)
            return
        self._watched[place.path] = [lost]
        self._loop.watch(handle, partial(self._on_guard_ended, place.path, handle))

    def deliver(self, entry: Entry, delivered: Delivered, waiting: Waiting) -> None:
        place = AttemptPlace.of(entry)
        if place is None or not place.tree.is_dir():
            delivered("")
            return
        self._keeping.add(place, entry.key)
        account = entry.intent.spec.account if entry.intent.spec else None
        errand = self._errands[entry.key] = Errand(place, account, delivered, waiting)
        self._go(entry.key, errand)

    def give_up(self, entry: Entry) -> None:
        errand = self._errands.get(entry.key)
        if errand is None or errand.place.is_given_up:
            return
        try:
            errand.place.give_up()
        except OSError as error:
            log.error("%s cannot be noted as given up: %s", errand.place.path.name, error)
        if errand.timer:
            errand.timer.cancel()
            self._go(entry.key, errand)

    def release(self, live: Collection[Entry]) -> None:
        self._keeping.release(live)

    def _go(self, key: Key, errand: Errand) -> None:
        place, lock = errand.place, self._keeping.lock(errand.place)
        errand.timer = None
        alone = self._keeping.users(place) <= self._errands.keys()
        again = errand.tries > 0
        errand.tries += 1

        def deliver() -> None:
            self._welcomed.wait()
            crash.point("before-deliver")
            with lock:
                outcome = self._try_deliver(place, errand.account, alone=alone, again=again)
            crash.point("after-deliver")
            self._loop.post(lambda: self._on_tried(key, errand, outcome))

        self._crew.do(deliver)

    def _try_deliver(
        self, place: AttemptPlace, account: Account | None, *, alone: bool, again: bool
    ) -> str | Waits:
        haul = Haul(self._settings, self._epoch, *place.numbers)
        try:
            trouble = Delivery(haul, self._guards, place, account).go(alone=alone, again=again)
            if alone and not trouble:
                self._keeping.settle(place)
            return self._keeping.keep(place, trouble) if trouble and undelivered(place) else trouble
        except Waits as waits:
            return waits
        except Exception as error:
            if not again:
                log.exception("the data of %s could not be delivered", place.path.name)
            return Waits(f"a mistake of the worker's own: {error}", is_refusal=True)

    def _on_tried(self, key: Key, errand: Errand, outcome: str | Waits) -> None:
        place = errand.place
        if isinstance(outcome, Waits) and not (outcome.is_refusal and place.is_given_up):
            self._note_full(place.path, str(outcome) if outcome.is_head_full else "")
            # A head that is started anew is no news; one that refuses is, or is away for long.
            if (outcome.is_refusal or errand.tries > QUIET_TRIES) and errand.is_news(outcome):
                log.warning("the data of %s is not on the head yet: %s", place.path.name, outcome)
                errand.waiting(str(outcome))
            errand.timer = self._loop.after(errand.pace.delay_s(), partial(self._go, key, errand))
            return
        del self._errands[key]
        self._note_full(place.path, "")
        errand.delivered(self._keeping.keep(place, str(outcome)) if isinstance(outcome, Waits) else outcome)

    def _note_full(self, path: Path, why: str) -> None:
        before = self.trouble
        self._full.pop(path, None)
        if why:
            self._full[path] = why
        if bool(before) != bool(self._full):
            self._changed()

    def _try_fetch(self, place: AttemptPlace, account: Account | None) -> StartRefused | OSError | None:
        try:
            self._fetch(place, account)
        except Refused as error:
            return StartRefused(f"the head does not give its files: {error}")
        except (Problem, HeadError) as error:
            return OSError(str(error))
        except MountError as error:
            return StartRefused(f"its data directories cannot be mounted: {error}")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return StartRefused("this node has no space left for the job's files")
            return error
        except Exception as error:
            log.exception("the data of %s: a mistake of the worker's own", place.path.name)
            return StartRefused(f"a mistake of the worker's own: {error}")
        return None

    def _fetch(self, place: AttemptPlace, account: Account | None) -> None:
        haul = Haul(self._settings, self._epoch, *place.numbers)
        place.make()
        if not place.tree.is_dir():
            if place.coming.exists():
                shutil.rmtree(place.coming)
            place.coming.mkdir(mode=0o700)
            owner = (account.uid, account.gid) if account else tar_streams.NOBODY
            if account:
                os.chown(place.coming, *owner)
            with haul.tree() as pieces:
                tar_streams.unpack(pieces, place.coming, owner)
            manifest.scan(place.coming).save(place.manifest)
            place.coming.rename(place.tree)
            crash.point("after-fetch")
        if place.guard() is None or not place.controls():
            self._guards.begin(place, haul.token(), account)
            crash.point("after-mount")
        # Here, where it may take its time, and not in the loop a moment later.
        for mount in place.mounts:
            mount.stat()
        (place.mounts[0] / "home").stat()

    def _bring_late(self) -> None:
        """The head may want it after all, such as of a job that it took for lost."""
        self._keeping.try_late(
            lambda place: str(self._try_deliver(place, place.account(), alone=True, again=True))
        )
        self._loop.after(LATE_S, self._bring_late)

    def _on_guard_ended(self, path: Path, handle: int) -> None:
        self._loop.unwatch(handle)
        os.close(handle)
        watching = self._watched.pop(path, [])
        # Where all is over it is begun anew for what is not sent yet.
        if self._keeping.users(AttemptPlace(path)) - self._errands.keys():
            self._note_lost(AttemptPlace(path))
            for lost in watching:
                lost()

    def _note_lost(self, place: AttemptPlace) -> None:
        try:
            if not place.lost():
                place.save_lost(GUARD_LOST)
        except OSError as error:
            log.error("%s: that its mounts are lost cannot be written: %s", place.path.name, error)
