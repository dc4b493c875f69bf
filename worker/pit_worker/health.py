"""The health of this node: a self-check at intervals, and a pause after starts that failed in a row.

A node that finds something wrong with itself takes no new processes; those that run continue. It takes new
ones again when a check finds nothing wrong.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pit_worker.loop import Loop, Timer
from pit_worker.timing import Timing

MOST_PAUSES = 8  # the pause after failed starts grows up to this many times its first length
PROBE = "probe"  # a file in the spool, for an instant

log = logging.getLogger(__name__)

Check = Callable[[], str]  # what is wrong, or an empty text; may block


class NodeHealth:
    """Checks in a thread, and reports in the loop."""

    def __init__(
        self,
        loop: Loop,
        checks: Mapping[str, Check],
        max_faults: int,
        changed: Callable[[], None],
        timing: Timing,
    ) -> None:
        """`checks` have the names of what they check, for one that does not end."""
        self._loop = loop
        self._checks = checks
        self._max_faults = max_faults
        self._changed = changed
        self._timing = timing
        self._found: str | None = None
        self._began: float | None = None  # the check under way, by the monotonic clock
        self._checking = ""  # what it checks at the moment
        self._next: Timer | None = None
        self._failed_jobs: set[int] = set()  # whose starts failed, since the last one that did not
        self._pauses = 0
        self._pause = ""  # why no starts are tried for a while
        self._pause_until = 0.0  # by the monotonic clock

    @property
    def trouble(self) -> str | None:
        """Why the node takes no new processes; None before the first check."""
        return None if self._found is None else "; ".join(filter(None, (self._found, self._pause)))

    def check(self) -> None:
        """Check now unless a check is under way, and from then on at intervals."""
        if self._next:
            self._next.cancel()
        self._next = self._loop.after(self._timing.health_check_s, self.check)
        if self._began is None:
            self._began = began = time.monotonic()
            threading.Thread(target=self._run, args=(began,), name="health", daemon=True).start()
            self._loop.after(self._timing.health_timeout_s, lambda: self._on_overdue(began))

    def note_fault(self, job: int, reason: str) -> None:
        """A process of this job could not be started, through no fault of the job."""
        self._failed_jobs.add(job)
        # Several jobs, because a single one may be the cause itself.
        if len(self._failed_jobs) >= self._max_faults or self._pauses:
            self._pauses = min(self._pauses + 1, MOST_PAUSES)
            self._pause_until = time.monotonic() + self._timing.fault_pause_s * self._pauses
            self._pause = f"it could not start the last {len(self._failed_jobs)} jobs: {reason}"
            log.error("no new processes for a while: %s", self._pause)
        self.check()

    def note_start(self) -> None:
        """A process was started."""
        self._failed_jobs.clear()
        self._pauses = 0

    def _run(self, began: float) -> None:
        found = []
        for name, check in self._checks.items():
            self._checking = name
            try:
                found.append(check())
            except OSError as error:
                found.append(f"{name} cannot be checked: {error.strerror or error}")
        self._loop.post(lambda: self._on_checked("; ".join(filter(None, found)), began))

    def _on_checked(self, found: str, began: float) -> None:
        self._began = None
        if self._pause and not found and began >= self._pause_until:
            self._pause = ""
            log.info("starts are tried again")
        self._set(found)

    def _on_overdue(self, began: float) -> None:
        if self._began == began:
            self._set(f"{self._checking} does not answer")

    def _set(self, found: str) -> None:
        if found != self._found:
            log.log(logging.ERROR if found else logging.INFO, "self-check: %s", found or "all is well")
        self._found = found
        self._changed()


def check_spool(spool: Path) -> str:
    """Whether the spool can be written, to the disk."""
    probe = spool / PROBE
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"pit\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        probe.unlink()
    except OSError as error:
        return f"its spool {spool} cannot be written: {error.strerror}"
    return ""


def check_data_root(root: Path) -> str:
    """Whether the head's files are there: an empty directory is a mount that is missing."""
    try:
        with os.scandir(root / "jobs"):
            return ""
    except FileNotFoundError:
        return f"the data root {root} is not there"
    except OSError as error:
        return f"the data root {root} cannot be read: {error.strerror}"
