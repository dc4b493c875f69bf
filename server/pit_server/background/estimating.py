"""The estimating thread: when waiting jobs will start, after passes of the scheduler."""

import time
from collections.abc import Callable, Mapping

from pit_protocol.answers.queue import EstimateErrors
from pit_server.background.scheduling import Scheduling
from pit_server.db.database import Database
from pit_server.services.scheduling.estimates import errors, starts
from pit_server.services.scheduling.estimates.start_range import StartRange
from pit_server.services.scheduling.why import wait_reasons
from pit_server.settings import Settings
from pit_server.wakeups import STATUS

LEAST_S = 2.0  # between two estimates
MEASURE_S = 60.0  # between two looks at their errors


class Estimating:
    """Apart from the scheduling thread, so that no pass waits for an estimate."""

    def __init__(
        self,
        database: Database,
        scheduling: Scheduling,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._scheduling = scheduling
        self._budget_s = settings.pass_ms / 1000
        self._clock = clock
        self._next_at = self._measure_at = clock()
        self._stored: set[int] = set()  # jobs whose first estimate is stored
        self.ranges: Mapping[int, StartRange] = {}
        self.errors = EstimateErrors()

    def __call__(self) -> float | None:
        """Estimate for the latest pass, unless that was done a moment ago."""
        begun = self._clock()
        if begun < self._next_at:
            return self._next_at - begun
        self._next_at = begun + LEAST_S
        self._store_waits()
        self._estimate()
        if begun >= self._measure_at:
            self._measure_at = begun + MEASURE_S
            with self._database.read() as session:
                self.errors = errors.measure(session, now=time.time())
        return None

    def _store_waits(self) -> None:
        waits = self._scheduling.waits
        found = [(number, waits.pop(number)) for number in list(waits)]
        if found:
            with self._database.write() as session:
                for number, reason in found:
                    wait_reasons.store(session, number, reason)

    def _begin(self) -> Callable[[], bool]:
        """Begin a plan; returns whether its time is over."""
        over_at = self._clock() + self._budget_s
        return lambda: self._clock() >= over_at

    def _estimate(self) -> None:
        last = self._scheduling.last
        if not last.plan.reservations:
            self.ranges, self._stored = {}, set()
            return
        with self._database.read() as session:
            estimator = starts.prepare(session, last)
        self.ranges = estimator.estimate(self._begin)
        new = self.ranges.keys() - self._stored
        if new:
            with self._database.write() as session:
                for number in sorted(new):
                    errors.store_first(session, number, self.ranges[number], now=last.given.now)
            self._database.wakeups.notify([STATUS])
        self._stored = set(self.ranges)
