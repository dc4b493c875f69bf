"""Room on the head's disk: how much each domain uses, how much it may, and how much is left for all."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.problem import Problem
from pit_server.services.domains import Place
from pit_server.settings import Settings
from pit_server.store.measuring import measure

MIB = 1024 * 1024
FRESH_S = 600.0  # as long as a measurement is believed
RESERVE = "reserve"  # a file that is given up when the disk is full


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

    def demand(self, place: Place, size: int, *, arrived: int = 0) -> None:
        """Raise a Problem unless a file of that size may be written there, of which a part may be already."""
        self.demand_disk(size - arrived)
        if place.quota_mib is None:
            return
        allowed = place.quota_mib * MIB
        if self.used(place.name, place.directory).size + size <= allowed:
            return
        # Something may have been removed meanwhile; who is refused is refused by what is true now.
        used = self.used(place.name, place.directory, fresh_s=0.0).size
        if used + size > allowed:
            raise Problem(
                "over_quota",
                f"{place.name} uses {told(used)} of the {told(allowed)} it may, and this has {told(size)}",
                f"remove what is not needed, or ask an admin: `pit set {place.name} quota=…`",
                status=507,
            )

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

    def free_reserve(self) -> bool:
        """Give it up, so that beats and ends of jobs can still be written; False if it is gone already."""
        try:
            (self._settings.home / RESERVE).unlink()
        except FileNotFoundError:
            return False
        return True


def told(size: int) -> str:
    """A size for people: `1.5 GiB`."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
