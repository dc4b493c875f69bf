"""When waiting jobs will start, as ranges: the real plan, with what runs and waits ending early and late.

Only jobs with a reservation get an estimate. The lengths are those that one and nine of ten earlier
jobs did not exceed: of the same user and title, else of the user, else of all users.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Attempt, Job, Process
from pit_server.scheduler.capacity import Held, NodeView
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.order import Usage, Waiting
from pit_server.scheduler.plan import plan
from pit_server.services.jobs import time_limits
from pit_server.services.scheduling.estimates.start_range import StartRange
from pit_server.services.scheduling.last_pass import LastPass

EARLY, LATE = 0.1, 0.9  # shares of earlier jobs that were not longer


class Kin(NamedTuple):
    """By what a job is compared with earlier ones."""

    user_id: int
    title: str
    limit_s: float | None = None
    started: float | None = None


@dataclass(frozen=True)
class Estimator:
    """All that is needed to estimate the starts of the jobs that a pass has made reservations for."""

    last: LastPass
    jobs: Mapping[int, Kin]

    def estimate(self, begin: Callable[[], Callable[[], bool]]) -> dict[int, StartRange]:
        """When the jobs start; a job that there was no time for has the time of its reservation.

        `begin` is called before each of two plans and says when its time is over.
        """
        now = self.last.given.now
        early, late = self._starts(EARLY, begin()), self._starts(LATE, begin())
        ranges: dict[int, StartRange] = {}
        for number, reserved in self.last.plan.reservations.items():
            first, last = early.get(number, reserved.start), late.get(number, reserved.start)
            found = StartRange(max(now, min(first, last)), max(now, first, last))
            # An array starts with the first of its elements.
            ranges[array_of(number)] = min(found, ranges.get(array_of(number), found))
        return ranges

    def _starts(self, share: float, is_over: Callable[[], bool]) -> dict[int, float]:
        """When jobs start if all end after a time that this share of earlier jobs did not exceed."""
        given, made = self.last.given, self.last.plan
        order = [placed.number for placed in made.placements]
        order += sorted(made.reservations, key=made.factors.__getitem__)
        shapes: dict[tuple[int, float], Shape] = {}
        queue = {
            number: self._waiting(number, -position, share, shapes)
            for position, number in enumerate(order)
            if number in given.queue
        }
        nodes = [self._with_ends(view, share) for view in given.nodes]
        guess = replace(given, queue=queue, nodes=nodes, idle=(), usage=Usage(), reservations=len(queue))
        found = plan(guess, None, is_over)
        starts = {number: reserved.start for number, reserved in found.reservations.items()}
        return starts | {placed.number: given.now for placed in found.placements}

    def _waiting(
        self, number: int, priority: int, share: float, shapes: dict[tuple[int, float], Shape]
    ) -> Waiting:
        job, kin = self.last.given.queue[number], self.jobs.get(number)
        old = job.shape
        length = old.duration_s
        if kin is not None:
            length = self.last.run_times.likely(kin.user_id, kin.title, share, kin.limit_s)
        key = id(old), length
        if key not in shapes:
            shapes[key] = Shape(old.request, old.access, length, old.mode, old.avoided)
        return Waiting(number, shapes[key], job.user, job.group, priority)

    def _with_ends(self, view: NodeView, share: float) -> NodeView:
        return replace(view, held=tuple(self._with_end(held, share) for held in view.held))

    def _with_end(self, held: Held, share: float) -> Held:
        kin, now = self.jobs.get(held.job), self.last.given.now
        if kin is None or kin.started is None:
            return held
        times = self.last.run_times
        end = times.likely_end(kin.user_id, kin.title, kin.started, now, share, kin.limit_s)
        return replace(held, until=end)


def prepare(session: Session, last: LastPass) -> Estimator:
    """Read what the estimates need; the work itself needs no session."""
    live = session.execute(
        select(Job.id, Job.user_id, Job.title, Job.options, Attempt.created_at)
        .join(Attempt, (Attempt.job_id == Job.id) & (Attempt.number == Job.attempt))
        .where(Job.id.in_(select(Process.job_id).where(IS_LIVE)))
        .order_by(Attempt.created_at.desc())
    )
    # Nodes know elements by their array: all of them are taken for the one that began first.
    jobs = {array_of(row.id): Kin(*_known(row), row.created_at) for row in live}
    placed = {placed.number for placed in last.plan.placements}
    return Estimator(last, jobs | _waiting_kin(session, placed | last.plan.reservations.keys()))


def _waiting_kin(session: Session, numbers: Collection[int]) -> dict[int, Kin]:
    """By number; elements of an array that have not begun are like their array."""
    query = select(Job.id, Job.user_id, Job.title, Job.options)
    rows = session.execute(query.where(Job.id.in_({array_of(number) for number in numbers})))
    known = {row.id: Kin(*_known(row)) for row in rows}
    return {number: known[array_of(number)] for number in numbers if array_of(number) in known}


def _known(row: AnyRow) -> tuple[int, str, float | None]:
    return row.user_id, row.title, time_limits.limit_s(row.options)
