"""The scheduling thread: plan the queue, commit the placements that still hold, keep why the others wait."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from pit_protocol.arrays.numbers import is_element
from pit_server import metrics
from pit_server.db.database import Database
from pit_server.scheduler.plan import FULL_PASS_S, Plan, plan
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs import dependencies
from pit_server.services.jobs.processes import plan_commit
from pit_server.services.scheduling import arrays
from pit_server.services.scheduling.last_pass import FreshReasons, LastPass
from pit_server.services.scheduling.queue import QueueReader, SchedulingInput
from pit_server.services.sites import placement
from pit_server.settings import Settings
from pit_server.wakeups import ESTIMATING, STATUS, job_topic


class Scheduling:
    def __init__(
        self, database: Database, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._settings = database, settings
        self._budget_s = settings.pass_ms / 1000
        self._clock = clock
        self._reader = QueueReader(settings)
        self.latest = Plan()  # its placements may not have been committed
        self.reasons: Mapping[int, Reason] = {}  # why each waiting job waits
        self.last = LastPass()
        self.fresh = FreshReasons(self.last)
        self.waits: dict[int, Reason] = {}  # what jobs have waited for, until the estimating thread stores it

    def __call__(self) -> float | None:
        """Make a pass; returns when the next one is due, because shares and time limits change."""
        with metrics.PASS_SECONDS.time():
            return self._pass()

    def _pass(self) -> float | None:
        now = time.time()
        dependencies.resolve(self._database, now=now)
        with self._database.read() as session:
            found = self._reader.read(session, now=now)
        over_at = self._clock() + self._budget_s
        # Taken away first: an error must not leave a memory that is half changed.
        memory, self.latest = self.latest.memory, replace(self.latest, memory=None)
        self.latest = plan(found.given, memory, lambda: self._clock() >= over_at)
        self._note_waits()
        self._tell(found)
        placed: list[int] = []
        if self.latest.placements:
            placed = plan_commit.commit(self._database, self.latest, self._settings, now=time.time())
        look_s = placement.advance(self._database, found.at_sites, self._settings, now=time.time())
        # An array that has started elements may have more of them.
        if not self.latest.is_complete or any(map(is_element, placed)):
            return 0.0
        return _soonest(FULL_PASS_S if self.latest.reasons else look_s, found.next_due, look_s)

    def _note_waits(self) -> None:
        """Keep what the jobs that start now have waited for."""
        for placed in self.latest.placements:
            if reason := self.reasons.get(placed.number):
                self.waits[placed.number] = reason
        if self.waits or self.latest.reservations:
            self._database.wakeups.notify([ESTIMATING])

    def _tell(self, found: SchedulingInput) -> None:
        """Keep the reasons, and wake those who follow a job whose reason changed."""
        held = {number: hold.reason for number, hold in found.held.items()}
        before, self.reasons = self.reasons, {**arrays.by_job(self.latest.reasons), **held}
        made = replace(self.latest, memory=None)
        self.last = LastPass(found.given, made, self.reasons, self._reader.run_times)
        self.fresh = FreshReasons(self.last)
        changed = [number for number, reason in self.reasons.items() if before.get(number) != reason]
        if changed:
            self._database.wakeups.notify([STATUS, *map(job_topic, changed)])


def _soonest(in_s: float | None, due: float | None, look_s: float | None) -> float | None:
    """The soonest of two times from now and a time on the clock."""
    if in_s is not None and look_s is not None:
        in_s = min(in_s, look_s)
    if due is None:
        return in_s
    return min(max(0.0, due - time.time()), FULL_PASS_S if in_s is None else in_s)
