"""How far arrays have come: their elements counted by state. Never a counter, always a sum over rows."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import ArrayElement, ArrayProgress, ElementList, FailedElement
from pit_protocol.arrays.elements import parse_elements
from pit_protocol.arrays.numbers import array_of
from pit_protocol.states import JobState, Outcome
from pit_server.db.models import Job

MAX_FAILED = 20  # that are listed one by one
UNFULFILLED = (Outcome.FAILED, Outcome.LOST, Outcome.TIMED_OUT)
_WORDS = (
    (Outcome.FAILED, "failed"),
    (Outcome.LOST, "were lost"),
    (Outcome.TIMED_OUT, "timed out"),
    (Outcome.STOPPED, "were stopped"),
)


@dataclass(frozen=True)
class Counts:
    """The elements of one array that have a row."""

    live: int
    by_outcome: Counter[Outcome]

    @property
    def failed(self) -> int:
        return sum(self.by_outcome[outcome] for outcome in UNFULFILLED)

    @property
    def outcome(self) -> Outcome:
        """How the array ended, if all of them have."""
        if self.failed:
            return Outcome.FAILED
        return Outcome.STOPPED if self.by_outcome[Outcome.STOPPED] else Outcome.SUCCEEDED

    def describe(self, size: int) -> str:
        """In words how many did not succeed; empty if all did."""
        found = [(self.by_outcome[outcome], word) for outcome, word in _WORDS if self.by_outcome[outcome]]
        if not found:
            return ""
        count, word = found[0]
        verb = word if count > 1 else word.replace("were", "was")
        others = (f"{count:,} {word}" for count, word in found[1:])
        return ", ".join((f"{count:,} of {size:,} elements {verb}", *others))


def count(session: Session, arrays: Collection[int]) -> dict[int, Counts]:
    """The counts of these arrays, by number."""
    live: Counter[int] = Counter()
    outcomes: dict[int, Counter[Outcome]] = {number: Counter() for number in arrays}
    if arrays:
        query = select(Job.array_job, Job.state, Job.outcome, func.count()).where(Job.array_job.in_(arrays))
        rows = session.execute(query.group_by(Job.array_job, Job.state, Job.outcome))
        for number, state, outcome, found in rows:
            assert number is not None  # noqa: S101 - the query says so
            if state == JobState.ENDED and outcome is not None:
                outcomes[number][Outcome(outcome)] += found
            else:
                live[number] += found
    return {number: Counts(live[number], counted) for number, counted in outcomes.items()}


def show(counts: Counts, size: int, state: str) -> ArrayProgress:
    """The counts for people; elements that did not begin before the end of their array were stopped."""
    ended = counts.by_outcome.total()
    left = size - ended - counts.live
    is_over = state in (JobState.STOPPING, JobState.ENDED)
    return ArrayProgress(
        size=size,
        waiting=0 if is_over else left,
        running=counts.live,
        succeeded=counts.by_outcome[Outcome.SUCCEEDED],
        failed=counts.failed,
        stopped=counts.by_outcome[Outcome.STOPPED] + (left if is_over else 0),
    )


def list_elements(session: Session, array: Job, *, failed: bool = False) -> ElementList:
    """The elements of an array that have begun, or only those that failed; any other job is its own."""
    mine = Job.array_job == array.id if array.array_size is not None else Job.id == array.id
    query = select(Job.array_index, Job.state, Job.outcome, Job.reason, Job.since, Job.results).where(mine)
    options = array.options
    axes = parse_elements(options.get("array"), options.get("sweep") or ())
    if failed:
        query = query.where(Job.state == JobState.ENDED, Job.outcome.in_(UNFULFILLED))
    rows = session.execute(query.order_by(Job.array_index))
    found = [
        ArrayElement(
            index=row.array_index,
            state=row.state,
            outcome=row.outcome,
            reason=row.reason,
            since=row.since,
            sweep={} if axes is None or row.array_index is None else axes.values(row.array_index),
            results=row.results or {},
        )
        for row in rows
    ]
    return ElementList(found, array_of(array.id))


def list_failed(session: Session, number: int) -> list[FailedElement]:
    """The first elements that failed."""
    query = select(Job.array_index, Job.outcome, Job.reason).where(
        Job.array_job == number, Job.state == JobState.ENDED, Job.outcome.in_(UNFULFILLED)
    )
    rows = session.execute(query.order_by(Job.array_index).limit(MAX_FAILED))
    return [FailedElement(row.array_index, row.outcome, row.reason) for row in rows]
