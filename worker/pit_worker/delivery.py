"""What an attempt has written, brought to the head: all of it, or told what is not there and why.

Only what the head has on its disk is noted as being there, so a try can end anywhere, and the next one
goes on from there.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pit_protocol.beat import Account
from pit_protocol.rclone import MountError
from pit_worker import crash, manifest, tar_streams
from pit_worker.attempt_place import AttemptPlace
from pit_worker.guards import Guards, Unsent
from pit_worker.hauling import Haul, NoRoom, Refused
from pit_worker.head import HeadError
from pit_worker.manifest import Manifest

BATCH, MOST_IN_BATCH = 256 * 1024 * 1024, 5_000  # bytes and files that are sent in one go
MOST_GONE = 500  # names of files to be removed that are told in one go
MOST_LEFT = 20  # single files that are refused, before the rest of a batch is taken for refused
MOST_ROUNDS = 3  # looks at a tree that changes while it is brought
SETTLE_S, LOOK_S = 10.0, 0.05  # for rclone to hear that a file was closed
NO_ROOM = 507
FINAL = (403, 404, 409, 413, 422)  # what the head answers that will not change by itself
MOST_SHOWN = 200  # letters of a path
OVERTAKEN = "stale_epoch"
OF_ALL = ("not_yours", "no_directory")  # refused is the attempt, not a file of it
GUARD_LOST = "the program that mounts them was killed"

log = logging.getLogger(__name__)


class Waits(Exception):
    """Not all is there yet, and another try makes sense; the text is for a person."""

    def __init__(self, why: str, *, is_refusal: bool = False, is_head_full: bool = False) -> None:
        super().__init__(why)
        self.is_refusal = is_refusal  # the head was there, and did not want it
        self.is_head_full = is_head_full  # nor anybody else's


class Delivery:
    """One try."""

    def __init__(self, haul: Haul, guards: Guards, place: AttemptPlace, account: Account | None) -> None:
        self._haul, self._guards, self._place, self._account = haul, guards, place, account

    def go(self, *, alone: bool, again: bool = False) -> str:
        """Bring what is not there; what will not come, in words, or nothing. Raises Waits.

        `alone`: no other process of the attempt runs here. `again`: this was tried before.
        """
        troubles: list[str] = []
        waits: list[Waits] = []
        steps = (
            partial(self._bring, MOST_ROUNDS if alone else 1),
            partial(self._flush, alone=alone, again=again),
        )
        for step in steps:
            # The one whether or not the other waits or is lost.
            try:
                troubles.append(step())
            except Refused as error:
                if error.code == OVERTAKEN:
                    waits.append(Waits(str(error)))  # another worker does it; this one leaves at any moment
                troubles.append(f"its files could not be written: {error}")
            except NoRoom as error:
                waits.append(Waits(str(error), is_refusal=True, is_head_full=error.is_head_full))
            except (HeadError, MountError) as error:
                waits.append(Waits(str(error)))
            except OSError as error:
                waits.append(Waits(f"this node cannot read or write its copy: {error}", is_refusal=True))
            except Waits as error:
                waits.append(error)
        if waits:
            raise max(waits, key=lambda each: (each.is_head_full, each.is_refusal))
        return next(filter(None, troubles), "")

    def _bring(self, rounds: int) -> str:
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
            for names in _slices(gone[::-1], MOST_GONE):  # what is in a directory before that itself
                for done in self._each(self._haul.remove, names, left):
                    for path in done:
                        known.known.pop(path, None)
            for batch in _batches(changed, now):
                for done in self._each(partial(self._send, left), batch, left):
                    known.known.update({path: now.known[path] for path in done if path not in left})
                self._save(known)
                crash.point("after-batch")
            self._save(known)
        return _tell(left)

    def _save(self, known: Manifest) -> None:
        try:
            known.save(self._place.manifest)
        except OSError as error:
            # A disk that this job has filled; the next try would only send the same again.
            log.warning("what the head has of %s cannot be noted: %s", self._place.path.name, error)

    def _send(self, left: dict[str, str], paths: Sequence[str]) -> None:
        self._haul.bring(tar_streams.pack(self._place.tree, paths, left))

    def _each(
        self, call: Callable[[Sequence[str]], None], paths: Sequence[str], left: dict[str, str]
    ) -> Iterator[Sequence[str]]:
        """Call it for all paths but those that are refused, which are noted; the others, as they are done."""
        try:
            call(paths)
        except tar_streams.Unreadable as error:
            left[error.path] = error.why
            if rest := [path for path in paths if path not in left]:
                yield from self._each(call, rest, left)
        except Refused as error:
            if error.code in (OVERTAKEN, *OF_ALL):
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
        """What was written to mounts."""
        place = self._place
        if again and alone:
            # What rclone was refused it tries again after minutes only; a new one does at once.
            self._guards.end(place)
        if place.guard() is None and place.unsent():
            # Or the node was started anew, or the mounts died: what is in the cache can still be sent.
            self._guards.begin(place, self._haul.token(), self._account, anew=False)
        if place.guard() is not None:
            try:
                self._guards.flush(place, self._haul.is_head_there)
            except Unsent as error:
                if error.status in FINAL:
                    return str(error)
                if error.status == NO_ROOM:
                    self._haul.bring(tar_streams.pack(place.tree, (), {}))  # is it full for all?
                raise Waits(str(error), is_refusal=bool(error.status)) from error
        if alone:
            self._await_sent()
        lost = place.lost()
        return f"its data directories were lost: {lost}" if lost else ""

    def _await_sent(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while unsent := self._place.unsent():
            if time.monotonic() > deadline:
                raise Waits(f"{len(unsent)} files in home or groups are still to be sent")
            time.sleep(LOOK_S)


def undelivered(place: AttemptPlace) -> str:
    """What of a place is not on the head, in words; empty if it may be deleted."""
    if not place.tree.is_dir():
        return ""
    changes, now = manifest.load(place.manifest).compare(place.tree)
    names = [*changes.changed, *changes.gone, *now.unread, *place.unsent()]
    return _tell(dict.fromkeys(names, "not on the head"))


def _tell(left: dict[str, str]) -> str:
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
