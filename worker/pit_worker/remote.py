"""Data of nodes without the head's files: job directories are copied, the user's data is mounted.

What an attempt needs is there before its first process begins, and what it has written is on the head
before the end of a process is told. Every step can be repeated, so a worker can be killed at any line.
"""

import errno
import logging
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

from pit_protocol.beat import Account, Order, ProcessSpec, Welcome
from pit_protocol.problem import Problem
from pit_protocol.rclone import MountError
from pit_worker import crash, manifest, tar_streams
from pit_worker.attempt_place import ATTEMPTS, AttemptPlace, localise
from pit_worker.backoff import Backoff
from pit_worker.carrier import Delivered, Fetched
from pit_worker.crew import Crew
from pit_worker.entry import Entry
from pit_worker.environment import StartRefused
from pit_worker.guards import Guards
from pit_worker.hauling import Haul, Refused
from pit_worker.head import HeadError
from pit_worker.loop import Loop
from pit_worker.settings import Settings

AT_ONCE = 8
BATCH, MOST_IN_BATCH = 256 * 1024 * 1024, 5_000  # bytes and files that are sent in one go
GUARD_LOST = "the program that mounts them was killed"
NOT_OURS, OVERTAKEN = "not_yours", "stale_epoch"

log = logging.getLogger(__name__)


class Remote:
    """A Carrier. Its threads talk with the head and with mounts; the loop never does."""

    def __init__(self, loop: Loop, settings: Settings) -> None:
        self._loop = loop
        self._settings = settings
        self._guards = Guards(settings)
        self._crew = Crew("carry", AT_ONCE)
        self._clearing = Crew("clear", 1)
        self._locks: dict[Path, threading.Lock] = defaultdict(threading.Lock)  # made by the loop alone
        self._epoch = 0
        self._welcomed = threading.Event()
        self._watched: dict[Path, list[Callable[[], None]]] = {}
        self._live: frozenset[Path] = frozenset()
        self._lost: set[Path] = set()  # whose mounts ended while they were needed

    def welcome(self, welcome: Welcome) -> None:
        self._epoch = welcome.epoch
        self._welcomed.set()

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        if order.spec is None:
            return home.data_root, None
        place = AttemptPlace.named(self._settings.spool, order.spec.job, order.attempt)
        return str(place.path), localise(order.spec)

    def fetch(self, entry: Entry, fetched: Fetched) -> None:
        place, spec = AttemptPlace.of(entry), entry.intent.spec
        if place is None or spec is None:
            fetched(None)
            return
        self._live |= {place.path}

        lock = self._locks[place.path]

        def fetch() -> None:
            with lock:
                outcome = self._try_fetch(place, spec.account)
            self._loop.post(lambda: fetched(outcome))

        self._crew.do(fetch)

    def attend(self, entry: Entry, lost: Callable[[], None]) -> None:
        place = AttemptPlace.of(entry)
        if place is None:
            return
        self._live |= {place.path}
        if place.path in self._watched:
            self._watched[place.path].append(lost)
            return
        if (handle := self._guards.open(place)) is None:
            self._lost.add(place.path)
            self._loop.after(0, lost)
            return
        self._watched[place.path] = [lost]
        self._loop.watch(handle, partial(self._on_guard_ended, place.path, handle))

    def deliver(self, entry: Entry, delivered: Delivered) -> None:
        place = AttemptPlace.of(entry)
        if place is None or not place.tree.is_dir():
            delivered("")
            return
        account = entry.intent.spec.account if entry.intent.spec else None
        lock = self._locks[place.path]

        def deliver() -> None:
            self._welcomed.wait()
            crash.point("before-deliver")
            with lock:
                trouble = self._try_deliver(place, account)
            crash.point("after-deliver")
            self._loop.post(lambda: delivered(trouble))

        self._crew.do(deliver)

    def release(self, live: Collection[Entry]) -> None:
        self._live = frozenset(place.path for place in map(AttemptPlace.of, live) if place)
        folder = self._settings.spool / ATTEMPTS
        if folder.is_dir():
            for path in folder.iterdir():
                if path not in self._live:
                    self._clearing.do(partial(self._clear, AttemptPlace(path), self._locks[path]))

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

    def _try_deliver(self, place: AttemptPlace, account: Account | None) -> str:
        try:
            # The one whether or not the other is lost.
            troubles = self._flush(place, account), self._bring(place)
        except Exception as error:
            log.exception("the data of %s could not be delivered", place.path.name)
            return f"its files could not be brought to the head: {error}"
        return next(filter(None, troubles), "")

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

    def _flush(self, place: AttemptPlace, account: Account | None) -> str:
        """What was written to mounts; what went wrong, or nothing."""
        lost = place.lost() or (GUARD_LOST if place.path in self._lost else "")
        if place.guard() is None and place.has_unsent():
            # The node was started anew, or the mounts died: what is in the cache can still be sent.
            self._insist(lambda: self._begin_again(place, account))
        trouble = self._guards.flush(place, self._is_head_there) if place.guard() else ""
        if lost or trouble:
            return f"its data directories were lost: {lost or trouble}"
        return ""

    def _is_head_there(self) -> bool:
        return Haul(self._settings, self._epoch, 0, 0).is_head_there()

    def _begin_again(self, place: AttemptPlace, account: Account | None) -> None:
        try:
            token = Haul(self._settings, self._epoch, *place.numbers).token()
            self._guards.begin(place, token, account)
        except MountError as error:
            log.error("the mounts of %s cannot be begun again: %s", place.path, error)

    def _bring(self, place: AttemptPlace) -> str:
        """The changes of the job's directory; what went wrong, or nothing."""
        known = manifest.load(place.manifest)
        changes, now = known.compare(place.tree)
        haul = Haul(self._settings, self._epoch, *place.numbers)
        if changes.gone:
            if trouble := self._insist(lambda: haul.remove(changes.gone)):
                return trouble
            for path in changes.gone:
                known.known.pop(path, None)
        for batch in _batches(changes.changed, now):
            if trouble := self._insist(lambda batch=batch: haul.bring(tar_streams.pack(place.tree, batch))):  # type: ignore[misc]
                return trouble
            known.known.update({path: now.known[path] for path in batch})
            known.save(place.manifest)
            crash.point("after-batch")
        known.save(place.manifest)
        return ""

    def _insist(self, call: Callable[[], None]) -> str:
        """Do it, again and again while the head is away; why it will not, or nothing."""
        backoff, said = Backoff(), ""
        while True:
            try:
                call()
            except HeadError as error:
                if str(error) != said:
                    log.warning("bringing files to the head: %s; trying again", error)
                said = str(error)
                time.sleep(backoff.delay_s())
            except Refused as error:
                if error.code == OVERTAKEN:
                    time.sleep(backoff.delay_s())  # another worker does it; this one leaves at any moment
                    continue
                # One that is not ours any more has been given up by the head: nobody waits for it.
                return "" if error.code == NOT_OURS else f"its files could not be written: {error}"
            else:
                return ""

    def _on_guard_ended(self, path: Path, handle: int) -> None:
        self._loop.unwatch(handle)
        os.close(handle)
        watching = self._watched.pop(path, [])
        if path in self._live:
            self._lost.add(path)
            for lost in watching:
                lost()

    def _clear(self, place: AttemptPlace, lock: threading.Lock) -> None:
        with lock:
            if place.path in self._live:
                return  # another process of it has come meanwhile
            try:
                self._guards.end(place)
                place.clear()
                self._lost.discard(place.path)
            except (OSError, MountError) as error:
                log.error("the data of %s cannot be cleared away: %s", place.path.name, error)


def _batches(paths: Collection[str], now: manifest.Manifest) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += now.known[path][1]
        if size >= BATCH or len(batch) >= MOST_IN_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
