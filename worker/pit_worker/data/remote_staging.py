"""Staging for nodes without the head's files: job directories are copied, the user's data is mounted.

An attempt's data arrives before its first process starts, and is back on the head before the end of a process
is reported. Every step can be repeated, so a worker can be killed at any line.
"""

import errno
import logging
import os
import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pit_protocol.backoff import Backoff
from pit_protocol.messages.beat import Account, Order, ProcessSpec, Welcome
from pit_protocol.problem import Problem
from pit_protocol.system import tree_delete
from pit_protocol.system.failpoints import Failpoints
from pit_protocol.transport.dirfd import DirectoryTree
from pit_protocol.transport.rclone import MountError
from pit_protocol.transport.tar_extract import extract_into
from pit_worker.data import manifest
from pit_worker.data.attempts import AttemptDirs
from pit_worker.data.fuse_mounts import FuseMounts
from pit_worker.data.stage_out import GUARD_LOST, RetryLater, StageOut, undelivered
from pit_worker.data.staging import StagedIn, StagedOut, Waiting
from pit_worker.head.client import HeadError
from pit_worker.head.files_api import FilesApi, Refused
from pit_worker.loop import Loop, Timer
from pit_worker.settings import REMOTE, Settings
from pit_worker.spool.attempt_dir import AttemptDir, localise
from pit_worker.spool.entry import Entry, Key
from pit_worker.spool.environment import NodeFault, StartRefused
from pit_worker.thread_pool import ThreadPool

AT_ONCE = 8
SILENT_TRIES = 5  # while the head is away, before the job's log mentions it
MOST_PAUSE_S = 10.0  # between two tries to deliver
RETAINED_RETRY_S = 6 * 3600.0  # between two tries to deliver retained data

log = logging.getLogger(__name__)


@dataclass(eq=False)
class StageOutTask:
    """The delivery of what a process wrote."""

    place: AttemptDir
    account: Account | None
    staged_out: StagedOut
    waiting: Waiting
    pace: Backoff = field(default_factory=lambda: Backoff(most_s=MOST_PAUSE_S))
    tries: int = 0
    timer: Timer | None = None
    said: str = ""

    def is_news(self, reason: RetryLater) -> bool:
        """Whether the reason differs from the last one; other sizes do not count."""
        text = re.sub(r"[\d.,]+ [KMGT]?i?[Bb]\w*", "…", str(reason))
        before, self.said = self.said, "full" if reason.is_head_full else text
        return before != self.said


class RemoteStaging:
    """Its threads talk to the head and to mounts; the loop never does."""

    def __init__(
        self, loop: Loop, settings: Settings, changed: Callable[[], None], failpoints: Failpoints
    ) -> None:
        self._loop = loop
        self._failpoints = failpoints
        self._settings = settings
        self._fuse_mounts = FuseMounts(settings)
        self._threads = ThreadPool("carry", AT_ONCE)
        self._attempts = AttemptDirs(settings.spool, self._fuse_mounts)
        self._epoch = 0
        self._welcomed = threading.Event()
        self._watched: dict[Path, list[Callable[[], None]]] = {}
        self._changed = changed
        self._stage_outs: dict[Key, StageOutTask] = {}
        self._full: dict[Path, str] = {}  # attempts whose results a full head refuses

    @property
    def trouble(self) -> str:
        return next((f"the head takes no results: {why}" for why in self._full.values()), "")

    def welcome(self, welcome: Welcome) -> None:
        self._epoch = welcome.epoch
        self._attempts.node = welcome.node
        if not self._welcomed.is_set():
            self._loop.after(0, self._deliver_retained)  # when the live processes are known
        self._welcomed.set()

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        if order.spec is None:
            return home.data_root, None
        if self._settings.data_root != REMOTE:
            return self._settings.data_root or home.data_root, order.spec
        place = AttemptDir.named(self._settings.spool, order.spec.job, order.attempt)
        return str(place.path), localise(order.spec)

    def stage_in(self, entry: Entry, staged_in: StagedIn) -> None:
        place, spec = AttemptDir.of(entry), entry.intent.spec
        if place is None or spec is None:
            staged_in(None)
            return
        self._attempts.add(place, entry.key)
        lock = self._attempts.lock(place)

        def fetch() -> None:
            with lock:
                outcome = self._try_fetch(place, spec.account)
            self._loop.post(lambda: staged_in(outcome))

        self._threads.submit(fetch)

    def watch(self, entry: Entry, lost: Callable[[], None]) -> None:
        place = AttemptDir.of(entry)
        if place is None:
            return
        self._attempts.add(place, entry.key)
        if place.path in self._watched:
            self._watched[place.path].append(lost)
            return
        if (handle := self._fuse_mounts.open(place)) is None:
            self._note_lost(place)
            self._loop.after(0, lost)
            return
        self._watched[place.path] = [lost]
        self._loop.watch(handle, partial(self._on_guard_ended, place.path, handle))

    def stage_out(self, entry: Entry, staged_out: StagedOut, waiting: Waiting) -> None:
        place = AttemptDir.of(entry)
        if place is None or not place.tree.is_dir():
            staged_out("")
            return
        self._attempts.add(place, entry.key)
        account = entry.intent.spec.account if entry.intent.spec else None
        task = self._stage_outs[entry.key] = StageOutTask(place, account, staged_out, waiting)
        self._go(entry.key, task)

    def give_up(self, entry: Entry) -> None:
        task = self._stage_outs.get(entry.key)
        if task is None or task.place.is_given_up:
            return
        try:
            task.place.give_up()
        except OSError as error:
            log.error("%s cannot be marked as given up: %s", task.place.path.name, error)
        if task.timer:
            task.timer.cancel()
            self._go(entry.key, task)

    def release(self, live: Collection[Entry]) -> None:
        self._attempts.release(live)

    def _go(self, key: Key, task: StageOutTask) -> None:
        place, lock = task.place, self._attempts.lock(task.place)
        task.timer = None
        alone = self._attempts.users(place) <= self._stage_outs.keys()
        again = task.tries > 0
        task.tries += 1

        def deliver() -> None:
            self._welcomed.wait()
            self._failpoints.reach("before-deliver")
            with lock:
                outcome = self._try_deliver(place, task.account, alone=alone, again=again)
            self._failpoints.reach("after-deliver")
            self._loop.post(lambda: self._on_tried(key, task, outcome))

        self._threads.submit(deliver)

    def _try_deliver(
        self, place: AttemptDir, account: Account | None, *, alone: bool, again: bool
    ) -> str | RetryLater:
        files_api = FilesApi(self._settings, self._epoch, *place.numbers)
        try:
            trouble = StageOut(files_api, self._fuse_mounts, place, account, self._failpoints).run(
                alone=alone, again=again
            )
            if alone and not trouble:
                self._attempts.settle(place)
            return self._attempts.keep(place, trouble) if trouble and undelivered(place) else trouble
        except RetryLater as later:
            return later
        except Exception as error:
            if not again:
                log.exception("the data of %s could not be delivered", place.path.name)
            return RetryLater(f"internal worker error: {error}", is_refusal=True)

    def _on_tried(self, key: Key, task: StageOutTask, outcome: str | RetryLater) -> None:
        place = task.place
        if isinstance(outcome, RetryLater) and not (outcome.is_refusal and place.is_given_up):
            self._note_full(place.path, str(outcome) if outcome.is_head_full else "")
            # A restart of the head is not worth a message; a refusal or a long absence is.
            if (outcome.is_refusal or task.tries > SILENT_TRIES) and task.is_news(outcome):
                log.warning("the data of %s is not on the head yet: %s", place.path.name, outcome)
                task.waiting(str(outcome))
            task.timer = self._loop.after(task.pace.delay_s(), partial(self._go, key, task))
            return
        del self._stage_outs[key]
        self._note_full(place.path, "")
        task.staged_out(
            self._attempts.keep(place, str(outcome)) if isinstance(outcome, RetryLater) else outcome
        )

    def _note_full(self, path: Path, why: str) -> None:
        before = self.trouble
        self._full.pop(path, None)
        if why:
            self._full[path] = why
        if bool(before) != bool(self._full):
            self._changed()

    def _try_fetch(self, place: AttemptDir, account: Account | None) -> StartRefused | OSError | None:
        try:
            self._fetch(place, account)
        except Refused as error:
            return StartRefused(f"the head does not give its files: {error}")
        except (Problem, HeadError) as error:
            return OSError(str(error))
        except MountError as error:
            return NodeFault(f"its data directories cannot be mounted: {error}")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return NodeFault("this node has no space left for the job's files")
            return error
        except Exception as error:
            log.exception("the data of %s: internal worker error", place.path.name)
            return NodeFault(f"internal worker error: {error}")
        return None

    def _fetch(self, place: AttemptDir, account: Account | None) -> None:
        files_api = FilesApi(self._settings, self._epoch, *place.numbers)
        place.make()
        if not place.tree.is_dir():
            if not tree_delete.delete(place.coming):
                raise OSError(f"{place.coming} cannot be deleted")
            place.coming.mkdir(mode=0o700)
            owner = (account.uid, account.gid) if account else None
            if owner:
                os.chown(place.coming, *owner)
            with files_api.tree() as pieces, DirectoryTree.at(place.coming, owner, follow=False) as tree:
                extract_into(tree, pieces, overwrite=False, keep_modes=True, must_be_sealed=True)
            manifest.scan(place.coming).save(place.manifest)
            place.coming.rename(place.tree)
            self._failpoints.reach("after-fetch")
        if place.guard() is None or not place.controls():
            self._fuse_mounts.begin(place, files_api.token(), account)
            self._failpoints.reach("after-mount")
        # Here, where it may be slow, rather than in the loop a moment later.
        for mount in place.mounts:
            mount.stat()
        (place.mounts[0] / "home").stat()

    def _deliver_retained(self) -> None:
        """Deliver retained data: the head may want it after all, for example of a job that it marked lost."""
        self._attempts.retry_retained(
            lambda place: str(self._try_deliver(place, place.account(), alone=True, again=True))
        )
        self._loop.after(RETAINED_RETRY_S, self._deliver_retained)

    def _on_guard_ended(self, path: Path, handle: int) -> None:
        self._loop.unwatch(handle)
        os.close(handle)
        watching = self._watched.pop(path, [])
        # After the last process, the mounts are started again for what is not sent yet.
        if self._attempts.users(AttemptDir(path)) - self._stage_outs.keys():
            self._note_lost(AttemptDir(path))
            for lost in watching:
                lost()

    def _note_lost(self, place: AttemptDir) -> None:
        try:
            if not place.lost():
                place.save_lost(GUARD_LOST)
        except OSError as error:
            log.error("%s: the loss of its mounts cannot be recorded: %s", place.path.name, error)
