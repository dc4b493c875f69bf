"""Disks of the node: whether new processes may still come, and who fills more than he may.

Looking takes as long as there are files, so a thread does it; and the longer one look took, the
longer it is until the next.
"""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from pit_worker.engine import EngineRefused
from pit_worker.entry import Entry, Key
from pit_worker.loop import Loop
from pit_worker.runtime import Runtime

HASTE = float(os.environ.get("PIT_WATCH_HASTE", "1"))  # a test lets it look more often
LOOK_S = 10.0 / HASTE  # between two looks
CALM = 20 / HASTE  # a look that took a second is repeated after so many, at the earliest
DU_S = 600.0  # for one look at one directory
MIB, KIB_OF_FILE = 1024 * 1024, 4  # an empty file takes its place, too
FILES_LOW = 10_000  # room for fewer files than that is as good as none
WELL_AGAIN = 1.1  # times the reserve, so that a node does not come and go

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Excess:
    """A process that fills more than it may."""

    key: Key
    reason: str


class Disks:
    """Looks from a thread of its own; what it finds is told in the loop."""

    def __init__(
        self,
        loop: Loop,
        runtime: Runtime,
        spool: Path,
        reserve_mib: int,
        list_entries: Callable[[], Collection[Entry]],
        on_excess: Callable[[Excess], None],
        changed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._runtime = runtime
        self._spool = spool
        self._reserve = reserve_mib * MIB
        self._list_entries = list_entries
        self._on_excess = on_excess
        self._changed = changed
        self._next_at: dict[Key, float] = {}
        self.trouble: str | None = None  # before the first look

    def start(self) -> None:
        self._ask()

    def _ask(self) -> None:
        limited = [e for e in self._list_entries() if e.intent.spec and e.intent.spec.disk_mib]
        threading.Thread(target=self._look, args=(limited,), name="disks", daemon=True).start()

    def _look(self, entries: Collection[Entry]) -> None:
        try:
            trouble = self._check_reserve()
            excesses = [excess for entry in entries if (excess := self._check(entry))]
        except Exception:
            log.exception("a mistake of the worker's own")
            trouble, excesses = "", []
        known = {entry.key for entry in entries}
        self._next_at = {key: at for key, at in self._next_at.items() if key in known}
        self._loop.post(lambda: self._on_looked(trouble, excesses))

    def _on_looked(self, trouble: str, excesses: Iterable[Excess]) -> None:
        self._loop.after(LOOK_S, self._ask)
        for excess in excesses:
            self._on_excess(excess)
        if trouble != self.trouble:
            if trouble:
                log.warning("no new processes: %s", trouble)
            elif self.trouble:
                log.info("the disks have room again")
            self.trouble = trouble
            self._changed()

    def _check_reserve(self) -> str:
        """Why no new processes may come; empty if they may."""
        wanted = self._reserve * (WELL_AGAIN if self.trouble else 1)
        for place in (self._spool, *self._runtime.disks()) if self._reserve else ():
            try:
                disk = os.statvfs(place)
            except OSError:
                continue
            if disk.f_bavail * disk.f_frsize < wanted:
                return f"less than {self._reserve // MIB:,} MiB are free at {place}"
            if disk.f_files and disk.f_favail < FILES_LOW:
                return f"there is room for less than {FILES_LOW:,} more files at {place}"
        return ""

    def _check(self, entry: Entry) -> Excess | None:
        spec, began = entry.intent.spec, time.monotonic()
        if spec is None or spec.disk_mib is None or self._next_at.get(entry.key, 0.0) > began:
            return None
        try:
            used_mib = sum(measure_kib(place) for place in self._runtime.list_filled(entry)) // 1024
        except (OSError, EngineRefused, subprocess.SubprocessError) as error:
            log.info("process %s: how much disk it fills is not known: %s", entry.key, error)
            return None
        ended = time.monotonic()
        self._next_at[entry.key] = ended + CALM * (ended - began)
        if used_mib <= spec.disk_mib:
            return None
        return Excess(entry.key, f"it fills {used_mib:,} MiB of disk, and may fill {spec.disk_mib:,} MiB")


def measure_kib(place: Path) -> int:
    """What the files below a directory take, links and other filesystems apart; raises OSError."""
    sizes = []
    for what in ("-k", "--inodes"):
        command = ["nice", "-n", "19", "du", "-s", "-x", "-P", what, "--", str(place)]
        # Files that go away meanwhile make it complain, and its number is good all the same.
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DU_S)
        number = told.stdout.partition("\t")[0]
        if not number.isdecimal():
            raise OSError(f"du says: {told.stderr.strip()[:200]}")
        sizes.append(int(number))
    return max(sizes[0], sizes[1] * KIB_OF_FILE)
