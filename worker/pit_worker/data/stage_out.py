"""Stage-out: bringing what an attempt wrote to the head, or reporting what is missing there and why.

Only what is on the head's disk is recorded as delivered, so a try can end anywhere and the next one
resumes.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pit_protocol.messages.beat import STALE_EPOCH, Account
from pit_protocol.system.failpoints import Failpoints
from pit_protocol.transport.rclone import MountError
from pit_worker.data import manifest, tar_pack
from pit_worker.data.fuse_mounts import FuseMounts, Unsent
from pit_worker.data.manifest import Manifest
from pit_worker.head.client import HeadError
from pit_worker.head.files_api import FilesApi, NoRoom, Refused
from pit_worker.spool.attempt_dir import AttemptDir

BATCH, MOST_IN_BATCH = 256 * 1024 * 1024, 5_000  # bytes and files in one request
MOST_GONE = 500  # removed files in one request
MOST_LEFT = 20  # refused files, after which the rest of a batch counts as refused
MOST_ROUNDS = 3  # scans of a tree that changes meanwhile
SETTLE_S, POLL_S = 10.0, 0.05  # for rclone to notice that a file was closed
NO_ROOM = 507
FINAL = (403, 404, 409, 413, 422)  # statuses that a retry will not change
MOST_SHOWN = 200  # characters of a path
OF_ALL = ("not_yours", "no_directory")  # the attempt is refused, not a file of it
GUARD_LOST = "the program that mounts them was killed"

log = logging.getLogger(__name__)


class RetryLater(Exception):
    """Not everything is on the head yet, and a retry makes sense; the text is for a person."""

    def __init__(self, why: str, *, is_refusal: bool = False, is_head_full: bool = False) -> None:
        super().__init__(why)
        self.is_refusal = is_refusal  # the head answered, and refused
        self.is_head_full = is_head_full  # it takes nobody's data


class StageOut:
    """One try to deliver an attempt's data."""

    def __init__(
        self,
        files_api: FilesApi,
        fuse_mounts: FuseMounts,
        place: AttemptDir,
        account: Account | None,
        failpoints: Failpoints,
    ) -> None:
        self._files_api, self._fuse_mounts = files_api, fuse_mounts
        self._place, self._account = place, account
        self._failpoints = failpoints

    def run(self, *, alone: bool, again: bool = False) -> str:
        """Send what is missing; returns what cannot be delivered, in words, or nothing. Raises RetryLater.

        `alone`: no other process of the attempt runs here. `again`: this is a retry.
        """
        troubles: list[str] = []
        waits: list[RetryLater] = []
        steps = (
            partial(self._send_changes, MOST_ROUNDS if alone else 1),
            partial(self._flush, alone=alone, again=again),
        )
        for step in steps:
            # Each step runs, whatever happens to the other.
            try:
                troubles.append(step())
            except Refused as error:
                if error.code == STALE_EPOCH:
                    waits.append(RetryLater(str(error)))  # another worker does it; this one is about to exit
                troubles.append(f"its files could not be written: {error}")
            except NoRoom as error:
                waits.append(RetryLater(str(error), is_refusal=True, is_head_full=error.is_head_full))
            except (HeadError, MountError) as error:
                waits.append(RetryLater(str(error)))
            except OSError as error:
                waits.append(RetryLater(f"this node cannot read or write its copy: {error}", is_refusal=True))
            except RetryLater as error:
                waits.append(error)
        if waits:
            raise max(waits, key=lambda each: (each.is_head_full, each.is_refusal))
        return next(filter(None, troubles), "")

    def _send_changes(self, rounds: int) -> str:
        """The changes of the job's directory."""
        known = manifest.load(self._place.manifest)
        left: dict[str, str] = {}
        for _ in range(rounds):
            changes, now = known.compare(self._place.tree)
            left |= now.unread
            gone = [path for path in changes.gone if path not in left]
            changed = [path for path in changes.changed if path not in left]
            if not gone and not changed:
                break
            for names in _slices(gone[::-1], MOST_GONE):  # content before its directory
                for done in self._each(self._files_api.remove, names, left):
                    for path in done:
                        known.known.pop(path, None)
            for batch in _batches(changed, now):
                for done in self._each(partial(self._send, left), batch, left):
                    known.known.update({path: now.known[path] for path in done if path not in left})
                self._save(known)
                self._failpoints.reach("after-batch")
            self._save(known)
        return _describe(left)

    def _save(self, known: Manifest) -> None:
        try:
            known.save(self._place.manifest)
        except OSError as error:
            # The job may have filled the disk; the next try would only send the same again.
            log.warning("the manifest of %s cannot be saved: %s", self._place.path.name, error)

    def _send(self, left: dict[str, str], paths: Sequence[str]) -> None:
        self._files_api.bring(tar_pack.pack(self._place.tree, paths, left))

    def _each(
        self, call: Callable[[Sequence[str]], None], paths: Sequence[str], left: dict[str, str]
    ) -> Iterator[Sequence[str]]:
        """Call it for all paths and yield those that succeed; refused ones go to `left`."""
        try:
            call(paths)
        except tar_pack.Unreadable as error:
            left[error.path] = error.why
            if rest := [path for path in paths if path not in left]:
                yield from self._each(call, rest, left)
        except Refused as error:
            if error.code in (STALE_EPOCH, *OF_ALL):
                raise
            if len(paths) == 1 or len(left) >= MOST_LEFT:
                left.update(dict.fromkeys(paths, str(error)))
                return
            middle = len(paths) // 2
            yield from self._each(call, paths[:middle], left)
            yield from self._each(call, paths[middle:], left)
        else:
            yield paths

    def _flush(self, *, alone: bool, again: bool) -> str:
        """Flush what was written to mounts."""
        place = self._place
        if again and alone:
            # rclone retries a refused upload only after minutes; a new one does at once.
            self._fuse_mounts.end(place)
        if place.guard() is None and place.unsent():
            # After a reboot, or if the mounts died, the cache can still be sent.
            self._fuse_mounts.begin(place, self._files_api.token(), self._account, in_use=False)
        if place.guard() is not None:
            try:
                self._fuse_mounts.flush(place, self._files_api.is_head_there)
            except Unsent as error:
                if error.status in FINAL:
                    return str(error)
                if error.status == NO_ROOM:
                    self._files_api.bring(
                        tar_pack.pack(place.tree, (), {})
                    )  # to see whether it is full for everybody
                raise RetryLater(str(error), is_refusal=bool(error.status)) from error
        if alone:
            self._await_sent()
        lost = place.lost()
        return f"its data directories were lost: {lost}" if lost else ""

    def _await_sent(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while unsent := self._place.unsent():
            if time.monotonic() > deadline:
                raise RetryLater(f"{len(unsent)} files in home or groups are still to be sent")
            time.sleep(POLL_S)


def undelivered(place: AttemptDir) -> str:
    """What of an attempt is not on the head, in words; empty if it may be deleted."""
    if not place.tree.is_dir():
        return ""
    changes, now = manifest.load(place.manifest).compare(place.tree)
    names = [*changes.changed, *changes.gone, *now.unread, *place.unsent()]
    return _describe(dict.fromkeys(names, "not on the head"))


def _describe(left: dict[str, str]) -> str:
    if not left:
        return ""
    path, why = next(iter(left.items()))
    shown = path.encode(errors="backslashreplace").decode()
    if len(shown) > MOST_SHOWN:
        shown = shown[:MOST_SHOWN] + "…"
    count = "1 of its files" if len(left) == 1 else f"{len(left):,} of its files"
    return f"{count} could not be brought to the head: {shown}: {why}"


def _slices(paths: Sequence[str], most: int) -> Iterable[Sequence[str]]:
    return (paths[start : start + most] for start in range(0, len(paths), most))


def _batches(paths: Iterable[str], now: Manifest) -> Iterator[list[str]]:
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
