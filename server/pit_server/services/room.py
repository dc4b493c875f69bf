"""Room on the head's disk: how much each domain uses, how much it may, and how much is left for all."""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.problem import Problem
from pit_server.services.domains import Place
from pit_server.settings import Settings
from pit_server.store.measuring import measure

MIB = 1024 * 1024
STEP = 4 * MIB  # that is kept for what comes without saying how much it is
FRESH_S = 600.0  # as long as a measurement is believed
RESERVE = "reserve"  # a file that is given up when the disk is full

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Use:
    size: int  # bytes on disk
    files: int
    at: float  # when it was measured


class Room:
    """Measurements are kept in memory: jobs write past the head, so that none is true for long."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._known: dict[str, Use] = {}
        self._is_full = False
        self._promised: Counter[str] = Counter()  # bytes that are being written

    def used(self, name: str, directory: Path, *, fresh_s: float = FRESH_S) -> Use:
        """What a domain uses, measured anew if that was longer ago than `fresh_s`."""
        known = self._known.get(name)
        if known and time.time() - known.at < fresh_s:
            return known
        size, files = measure(directory)
        with self._lock:
            self._known[name] = Use(size, files, time.time())
        return self._known[name]

    def add(self, name: str, size: int) -> None:
        """Count what was written just now."""
        with self._lock:
            if known := self._known.get(name):
                self._known[name] = Use(max(0, known.size + size), known.files, known.at)

    def forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def demand(self, place: Place, size: int) -> None:
        """Raise a Problem unless so much more may be written there."""
        with self.hold(place, size):
            pass

    @contextmanager
    def hold(self, place: Place, size: int, again: int = 0) -> Iterator["Hold"]:
        """Keep room for what is about to be written there, so that nobody else is promised the same.

        The first `again` bytes take the place of what is there.
        """
        hold = Hold(self, place, again)
        try:
            hold.extend(size)
            yield hold
        finally:
            hold.end()

    def keep(self, place: Place, size: int) -> None:
        """Add to what is promised; raises a Problem if that is more than there is."""
        self.demand_disk(size)
        if place.quota_mib is None or size <= 0:
            return
        allowed = place.quota_mib * MIB
        used = self.used(place.name, place.directory).size
        if not self._promise(place.name, size, allowed):
            # Something may have been removed meanwhile; who is refused is refused by what is true now.
            used = self.used(place.name, place.directory, fresh_s=0.0).size
            if not self._promise(place.name, size, allowed):
                full = f"{place.name} uses {told(used)} of the {told(allowed)} it may"
                raise Problem(
                    "over_quota",
                    f"{full}, and this has {told(size)}",
                    f"remove what is not needed, or ask an admin: `pit set {place.name} quota=…`",
                    status=507,
                )

    def give_back(self, name: str, size: int) -> None:
        """Take from what is promised, for it was written or will not be."""
        with self._lock:
            self._promised[name] -= size
            if self._promised[name] <= 0:
                del self._promised[name]

    def _promise(self, name: str, size: int, allowed: int) -> bool:
        with self._lock:
            known = self._known.get(name)
            if known and known.size + self._promised[name] + size > allowed:
                return False
            self._promised[name] += size
            return True

    def demand_disk(self, size: int = 0) -> None:
        """Raise a Problem if the disk is as good as full; what is read and reported goes on."""
        free, total = self.free()
        least = total * self._settings.min_free_percent / 100
        if free - size < least:
            raise Problem(
                "disk_full",
                f"the head's disk has {told(free)} left, and keeps the last {told(int(least))} for itself",
                "ask an admin for room, or remove what is not needed",
                status=507,
            )

    def free(self) -> tuple[int, int]:
        """Bytes that are left for the head, and all there are."""
        root = os.statvfs(self._settings.root)
        return root.f_bavail * root.f_frsize, root.f_blocks * root.f_frsize

    def keep_reserve(self) -> None:
        """Lay something by for a full disk, if there is room for it."""
        size = self._settings.reserve_mib * MIB
        reserve = self._settings.home / RESERVE
        if size and not reserve.exists() and self.free()[0] > 10 * size:
            with reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)

    def note_full(self, is_full: bool) -> None:
        """Say once that what nodes send has no room, and give the reserve up; and once that it has."""
        with self._lock:
            before, self._is_full = self._is_full, is_full
        if is_full and self.free_reserve():
            log.error(
                "the disk is full: the reserve is given up, so that beats and ends of jobs can be written"
            )
        elif is_full and not before:
            log.error("the disk is full: output of jobs stays on their nodes until there is room")
        elif before and not is_full:
            log.warning("the disk has room again")

    def free_reserve(self) -> bool:
        """Give it up, so that beats and ends of jobs can still be written; False if it is gone already."""
        try:
            (self._settings.home / RESERVE).unlink()
        except FileNotFoundError:
            return False
        return True


class Hold:
    """Room that is kept for one writer; what he writes is counted as used."""

    def __init__(self, room: Room, place: Place, again: int = 0) -> None:
        self._room, self._place = room, place
        self._left, self._again = 0, max(0, again)

    def extend(self, size: int) -> None:
        self._room.keep(self._place, size)
        self._left += max(0, size)

    def take(self, size: int) -> None:
        """Count what comes; a Problem if it is more than was kept, and there is no room for it."""
        again = min(size, self._again)
        self._again, size = self._again - again, size - again
        if size > self._left:
            try:
                self.extend(size - self._left + STEP)
            except Problem:
                self.extend(size - self._left)
        self._left -= size
        self._room.add(self._place.name, size)
        self._give_back(size)

    def end(self) -> None:
        self._give_back(self._left)

    def _give_back(self, size: int) -> None:
        if self._place.quota_mib is not None:
            self._room.give_back(self._place.name, size)


def told(size: int) -> str:
    """A size for people: `1.5 GiB`."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
