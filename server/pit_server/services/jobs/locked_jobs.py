"""Jobs whose rows are locked: only who holds the lock changes a job, its processes or its elements."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, is_element
from pit_protocol.states import JobState, Outcome
from pit_server.db.database import AnyRow
from pit_server.db.models import Job

_COLUMNS = (Job.id, Job.state, Job.attempt, Job.outcome, Job.reason, Job.array_size, Job.array_next)
_LOCKED = select(*_COLUMNS, Job.notify, Job.since, Job.options)


@dataclass(frozen=True)
class LockedJob:
    """The state of a job; valid until the end of the transaction that locked it."""

    number: int
    state: JobState
    attempt: int
    outcome: Outcome | None
    reason: str
    array_size: int | None = None  # of an array
    array_next: int | None = None  # of an array, when it was locked
    notify: str = ""  # events that its user is told of
    since: float = inf  # when it entered its state
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)


def lock(session: Session, number: int) -> LockedJob:
    """Lock the job's row until this transaction ends, and that of its array before it."""
    return lock_all(session, [number])[number]


def lock_all(session: Session, numbers: Collection[int]) -> dict[int, LockedJob]:
    """Lock the rows of jobs until this transaction ends, and those of their arrays before them."""
    arrays = {array_of(number) for number in numbers if is_element(number)}
    locked = lock_rows(session, arrays, Job.id.desc()) if arrays else {}
    return locked | lock_rows(session, numbers)


def lock_rows(session: Session, numbers: Collection[int], order: Any = Job.id) -> dict[int, LockedJob]:
    """Lock these rows alone. The order prevents deadlocks: arrays are locked as their elements are."""
    query = _LOCKED.where(Job.id.in_(numbers)).order_by(order).with_for_update()
    return {row.id: _locked(row) for row in session.execute(query)}


def _locked(row: AnyRow) -> LockedJob:
    outcome = Outcome(row.outcome) if row.outcome else None
    return LockedJob(row.id, JobState(row.state), row.attempt, outcome, *row[4:])
