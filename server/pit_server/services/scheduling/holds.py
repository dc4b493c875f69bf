"""Holds: what keeps a waiting job out of a pass altogether, whatever is free. One function for each rule."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy.orm import Session

from pit_protocol.job_times import parse_moment
from pit_server.db.database import AnyRow
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs import dependencies, requeue
from pit_server.services.jobs.arrays import progress
from pit_server.services.scheduling import arrays
from pit_server.services.users import deactivation
from pit_server.settings import Settings


class Hold(NamedTuple):
    reason: Reason
    until: float | None = None  # the job takes part again from then on; None: something has to happen


# A rule gets the waiting jobs (rows of `queue.py`), the settings and the time; it returns what it holds.
Rule = Callable[[Session, Sequence[AnyRow], Settings, float], Mapping[int, Hold]]


def find_all(
    session: Session, waiting: Sequence[AnyRow], settings: Settings, *, now: float
) -> dict[int, Hold]:
    """All jobs that are held; if several rules hold one, the first of them gives the reason."""
    held: dict[int, Hold] = {}
    for rule in reversed(RULES):
        held |= rule(session, waiting, settings, now)
    return held


def _inactive_users(
    _session: Session, waiting: Sequence[AnyRow], _settings: Settings, _now: float
) -> dict[int, Hold]:
    return {row.id: Hold(Reason(deactivation.hold_reason(row.name))) for row in waiting if not row.is_active}


def _dependencies(
    session: Session, _waiting: Sequence[AnyRow], _settings: Settings, _now: float
) -> dict[int, Hold]:
    return {number: Hold(reason) for number, reason in dependencies.list_unmet(session).items()}


def _not_begun(
    _session: Session, waiting: Sequence[AnyRow], _settings: Settings, now: float
) -> dict[int, Hold]:
    """Jobs that must not start yet."""
    found = {}
    for row in waiting:
        begin = row.options.get("begin")
        if begin and (at := parse_moment(begin)) > now:
            text = f"may begin at {begin.replace('T', ' ')}; `pit set job:{row.id} begin=` lets it start now"
            found[row.id] = Hold(Reason(text), at)
    return found


def _retry_delays(
    session: Session, waiting: Sequence[AnyRow], settings: Settings, now: float
) -> dict[int, Hold]:
    """Jobs that wait a while before they are tried again."""
    requeued = {row.id: row for row in waiting if row.attempt > 1}
    held = {}
    for number, delay_s in requeue.delays(session, requeued, settings.retry_delay_s).items():
        row = requeued[number]
        # A clock that was set back must not make it wait for longer.
        if 0 <= now - row.since < delay_s:
            held[number] = Hold(Reason(f"waits {delay_s:g} s before try {row.attempt}"), row.since + delay_s)
    return held


def _full_arrays(
    session: Session, waiting: Sequence[AnyRow], _settings: Settings, _now: float
) -> dict[int, Hold]:
    """Arrays of which as many elements run as their limit allows."""
    limits = {row.id: limit for row in waiting if (limit := arrays.limit_of(row)) is not None}
    counts = progress.count(session, limits)
    return {
        number: Hold(Reason(f"{limit:,} of its elements run, and %{limit} allows no more at a time"))
        for number, limit in limits.items()
        if counts[number].live >= limit
    }


RULES: tuple[Rule, ...] = (_inactive_users, _not_begun, _dependencies, _retry_delays, _full_arrays)
