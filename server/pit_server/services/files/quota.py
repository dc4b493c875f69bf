"""Quotas: how much each domain uses and may use, and how much of the disk is left for all."""

import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.problem import Problem
from pit_server.services.files.domains import Place
from pit_server.services.files.free_space import free_and_total, render_size, require_free_space
from pit_server.settings import Settings
from pit_server.store.files.disk_usage import measure

MIB = 1024 * 1024
STEP = 4 * MIB  # reserved at a time for a body of unknown length
FRESH_S = 600.0  # how long a measurement is reused
RESERVE_FILE = "reserve"  # is deleted when the disk is full
TRASH_NAME = r"{}-\d+-[0-9a-f]{{12}}"  # of what a domain has in the trash, as `removed.note` names it

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Use:
    size: int  # bytes on disk
    files: int
    at: float  # when it was measured


class Quotas:
    """Shared by all requests. Measurements stay in memory and expire, because jobs write past the head."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._known: dict[str, Use] = {}
        self._is_full = False
        self._reserved: Counter[str] = Counter()  # bytes that are being written
        self._reserved_on_disk = 0  # the same of all domains

    def used(self, name: str, directories: Sequence[Path], *, fresh_s: float = FRESH_S) -> Use:
        """What a domain uses, its trash included; measured again if the last time is over `fresh_s` ago."""
        known = self._known.get(name)
        if known and time.time() - known.at < fresh_s:
            return known
        found = [measure(place) for place in (*directories, *self._list_trash(name))]
        with self._lock:
            sizes, files = (sum(column) for column in zip(*found, strict=True))
            self._known[name] = Use(sizes, files, time.time())
        return self._known[name]

    def _list_trash(self, name: str) -> list[Path]:
        pattern = re.compile(TRASH_NAME.format(re.escape(name.replace(":", "-"))))
        try:
            return [
                path for path in (self._settings.root / "trash").iterdir() if pattern.fullmatch(path.name)
            ]
        except FileNotFoundError:
            return []

    def add(self, name: str, size: int, files: int = 0) -> None:
        """Count bytes and files that were just written."""
        with self._lock:
            if known := self._known.get(name):
                self._known[name] = Use(max(0, known.size + size), known.files + files, known.at)

    def add_file(self, place: Place) -> None:
        """Count a new file or directory; raises a Problem if the domain has too many."""
        most = self._settings.max_files
        if not place.is_domain or not most:
            return
        if self.used(place.name, place.counted).files >= most:
            found = self.used(place.name, place.counted, fresh_s=0.0).files
            if found >= most:
                raise Problem(
                    "too_many_files",
                    f"{place.name} has {found:,} files, and may have {most:,}",
                    "remove what is not needed; `pit rm --purge trash` empties the trash, which counts",
                    status=507,
                )
        self.add(place.name, 0, 1)

    def forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def require(self, place: Place, size: int) -> None:
        """Raise a Problem unless `size` more bytes may be written there."""
        with self.reserve(place, size):
            pass

    @contextmanager
    def reserve(self, place: Place, size: int, again: int = 0) -> Iterator["Reservation"]:
        """Reserve space for a write, so that concurrent writers cannot exceed the quota together.

        The first `again` bytes overwrite what is there.
        """
        reservation = Reservation(self, place, again)
        try:
            reservation.extend(size)
            yield reservation
        finally:
            reservation.end()

    def add_reserved(self, place: Place, size: int) -> None:
        """Reserve more; raises a Problem if that exceeds the quota or the disk."""
        self.require_disk_space(size)
        if size <= 0:
            return
        allowed = None if place.quota_mib is None else place.quota_mib * MIB
        if allowed is not None:
            self.used(place.name, place.counted)
        if not self._try_reserve(place.name, size, allowed):
            # Something may have been removed meanwhile: measure again before refusing.
            used = self.used(place.name, place.counted, fresh_s=0.0).size
            if allowed is not None and not self._try_reserve(place.name, size, allowed):
                full = f"{place.name} uses {render_size(used)} of its quota of {render_size(allowed)}"
                raise Problem(
                    "over_quota",
                    f"{full}, and this needs {render_size(size)}",
                    "remove what is not needed (`pit rm --purge trash` empties the trash, which counts), "
                    f"or ask an admin: `pit set {place.name} quota=…`",
                    status=507,
                )

    def release(self, name: str, size: int) -> None:
        """Release reserved bytes that were written or will not be."""
        with self._lock:
            self._reserved_on_disk -= size
            self._reserved[name] -= size
            if self._reserved[name] <= 0:
                del self._reserved[name]

    def _try_reserve(self, name: str, size: int, allowed: int | None) -> bool:
        with self._lock:
            known = self._known.get(name)
            if allowed is not None and known and known.size + self._reserved[name] + size > allowed:
                return False
            self._reserved_on_disk += size
            self._reserved[name] += size
            return True

    def require_disk_space(self, size: int = 0) -> None:
        """Raise a Problem if the disk is nearly full. Reading and reports of nodes are not affected.

        What others have announced and not sent yet counts, so that uploads cannot fill the disk together.
        """
        self.fill_reserve_file()
        require_free_space(self._settings, max(self._reserved_on_disk, 0) + size)

    def free(self) -> tuple[int, int]:
        """Free and total bytes of the data root's disk."""
        return free_and_total(self._settings)

    def fill_reserve_file(self) -> None:
        """Allocate the file that is deleted when the disk is full, if there is space for it."""
        size = self._settings.reserve_mib * MIB
        reserve = self._settings.home / RESERVE_FILE
        if size and not reserve.exists() and self.free()[0] > 10 * size:
            try:
                with reserve.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError:  # the disk filled up meanwhile
                reserve.unlink(missing_ok=True)

    def set_disk_full(self, is_full: bool) -> None:
        """Note whether writes of nodes find no space; log each change, and delete the reserve file."""
        with self._lock:
            before, self._is_full = self._is_full, is_full
        if is_full and self.release_reserve_file():
            log.error("the disk is full: deleted the reserve file, so that beats and job ends can be stored")
        elif is_full and not before:
            log.error("the disk is full: job output stays on the nodes until there is space")
        elif before and not is_full:
            log.warning("the disk has space again")
        if not is_full:
            self.fill_reserve_file()

    @property
    def is_disk_full(self) -> bool:
        with self._lock:
            return self._is_full

    def release_reserve_file(self) -> bool:
        """Delete the reserve file, so that beats and job ends can be stored; False if it is gone already."""
        try:
            (self._settings.home / RESERVE_FILE).unlink()
        except FileNotFoundError:
            return False
        return True


class Reservation:
    """Space reserved for one writer; written bytes count as used."""

    def __init__(self, quotas: Quotas, place: Place, again: int = 0) -> None:
        self._quotas, self._place = quotas, place
        self._left, self._again = 0, max(0, again)

    def extend(self, size: int) -> None:
        self._quotas.add_reserved(self._place, size)
        self._left += max(0, size)

    def take(self, size: int) -> None:
        """Count bytes that arrived; a Problem if they exceed the reservation and it cannot be extended."""
        again = min(size, self._again)
        self._again, size = self._again - again, size - again
        if size > self._left:
            try:
                self.extend(size - self._left + STEP)
            except Problem:
                self.extend(size - self._left)
        self._left -= size
        self._quotas.add(self._place.name, size)
        self._release(size)

    def add_file(self) -> None:
        """Count a new file; a Problem if there are too many."""
        self._quotas.add_file(self._place)

    def end(self) -> None:
        self._release(self._left)

    def _release(self, size: int) -> None:
        if size:
            self._quotas.release(self._place.name, size)
