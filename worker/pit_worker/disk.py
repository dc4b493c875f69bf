"""Disks of the node: whether they have space for new processes, and which processes use more than they may.

Measuring takes the longer the more files there are, so a thread does it; and the longer one measurement
took, the longer it is until the next.
"""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pit_protocol.system.largest_writer import WriterWatch
from pit_worker.loop import Loop
from pit_worker.runtime.base import Runtime
from pit_worker.runtime.docker.engine import EngineRefused
from pit_worker.spool.entry import Entry, Key
from pit_worker.timing import Timing

DU_TIMEOUT_S = 600.0  # for one directory
MIB = 1024 * 1024
KIB_PER_FILE = 4  # an empty file uses disk space, too
MIN_FREE_FILES = 10_000  # fewer free inodes count as none
RECOVERY_FACTOR = 1.1  # of the reserve must be free again, so that a node does not flap

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Excess:
    """A process that uses more disk space than it may."""

    key: Key
    reason: str


class DiskMonitor:
    """Measures in a thread of its own, and reports in the loop."""

    def __init__(
        self,
        loop: Loop,
        runtime: Runtime,
        spool: Path,
        reserve_mib: int,
        end_mib: int,
        list_entries: Callable[[], Collection[Entry]],
        on_excess: Callable[[Excess], None],
        changed: Callable[[], None],
        timing: Timing,
    ) -> None:
        self._timing = timing
        self._loop = loop
        self._runtime = runtime
        self._spool = spool
        self._reserve = reserve_mib * MIB
        self._end_below = min(end_mib * MIB, self._reserve // 2)
        self._watches: dict[int, WriterWatch[Key]] = {}  # by the number of the disk
        self._list_entries = list_entries
        self._on_excess = on_excess
        self._changed = changed
        self._next_at: dict[Key, float] = {}
        self.trouble: str | None = None  # None before the first check

    def start(self) -> None:
        """Check now, and from then on at intervals."""
        entries = list(self._list_entries())
        threading.Thread(target=self._check_all, args=(entries,), name="disks", daemon=True).start()

    def _check_all(self, entries: Collection[Entry]) -> None:
        try:
            trouble = self._check_reserve()
            excesses = [excess for entry in entries if (excess := self._check(entry))]
            excesses += self._find_largest_writers(entries)
        except Exception:
            log.exception("internal worker error")
            trouble, excesses = "", []
        known = {entry.key for entry in entries}
        self._next_at = {key: at for key, at in self._next_at.items() if key in known}
        self._loop.post(lambda: self._on_checked(trouble, excesses))

    def _on_checked(self, trouble: str, excesses: Iterable[Excess]) -> None:
        self._loop.after(self._timing.disk_check_s, self.start)
        for excess in excesses:
            self._on_excess(excess)
        if trouble != self.trouble:
            if trouble:
                log.warning("no new processes: %s", trouble)
            elif self.trouble:
                log.info("the disks have free space again")
            self.trouble = trouble
            self._changed()

    def _check_reserve(self) -> str:
        """Why the node should take no new processes; empty if it may."""
        return self._find_shortage([self._spool, *self._runtime.list_disks()]) if self._reserve else ""

    def check_spool(self) -> str:
        """The same for the disk of the spool alone; does not block."""
        return self._find_shortage([self._spool]) if self._reserve else ""

    def _find_shortage(self, places: Iterable[Path]) -> str:
        wanted = self._reserve * (RECOVERY_FACTOR if self.trouble else 1)
        for place in places:
            try:
                disk = os.statvfs(place)
            except OSError:
                continue
            if disk.f_bavail * disk.f_frsize < wanted:
                return f"less than {self._reserve // MIB:,} MiB are free at {place}"
            if disk.f_files and disk.f_favail < MIN_FREE_FILES:
                return f"there is room for less than {MIN_FREE_FILES:,} more files at {place}"
        return ""

    def _find_largest_writers(self, entries: Collection[Entry]) -> list[Excess]:
        """The processes to end, on disks that have almost no space left."""
        found = []
        disks = {place.stat().st_dev: place for place in (self._spool, *self._runtime.list_disks())}
        for disk, place in disks.items() if self._end_below else ():
            status = os.statvfs(place)
            watch = self._watches.setdefault(disk, WriterWatch())
            measure = partial(self._measure_on, disk, entries)
            key = watch.look(status.f_bavail * status.f_frsize, self._end_below, measure)
            if key is not None:
                short = f"less than {self._end_below // MIB:,} MiB are free at {place}"
                found.append(Excess(key, f"{short}, and this process fills that disk"))
        return found

    def _measure_on(self, disk: int, entries: Collection[Entry]) -> dict[Key, int]:
        """What each process uses of one disk, in KiB."""
        sizes = {}
        for entry in entries:
            places = [entry.path]
            with suppress(OSError, EngineRefused):
                places += self._runtime.list_written_dirs(entry)
            sizes[entry.key] = 0
            for place in places:
                with suppress(OSError, subprocess.SubprocessError):
                    if place.stat().st_dev == disk:
                        sizes[entry.key] += measure_kib(place)
        return sizes

    def _check(self, entry: Entry) -> Excess | None:
        spec, began = entry.intent.spec, time.monotonic()
        if spec is None or spec.disk_mib is None or self._next_at.get(entry.key, 0.0) > began:
            return None
        try:
            used_mib = sum(measure_kib(place) for place in self._runtime.list_written_dirs(entry)) // 1024
        except (OSError, EngineRefused, subprocess.SubprocessError) as error:
            log.info("process %s: its disk usage is not known: %s", entry.key, error)
            return None
        ended = time.monotonic()
        self._next_at[entry.key] = ended + self._timing.disk_rest * (ended - began)
        if used_mib <= spec.disk_mib:
            return None
        return Excess(entry.key, f"it uses {used_mib:,} MiB of disk, and may use {spec.disk_mib:,} MiB")


def measure_kib(place: Path) -> int:
    """Disk usage below a directory, without following links or entering other filesystems; raises OSError."""
    sizes = []
    for what in ("-k", "--inodes"):
        command = ["nice", "-n", "19", "du", "-s", "-x", "-P", what, "--", str(place)]
        # It complains of files that vanish meanwhile, but its number is good all the same.
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DU_TIMEOUT_S)
        number = done.stdout.partition("\t")[0]
        if not number.isdecimal():
            raise OSError(f"du says: {done.stderr.strip()[:200]}")
        sizes.append(int(number))
    return max(sizes[0], sizes[1] * KIB_PER_FILE)
