"""The only writer of states: every change is a guarded UPDATE with its event in the same transaction.

Lock the job before changing its processes. Otherwise two processes that end at the same time
could each see the other as still running, and the job would never end. In the same way, the array of an
element is locked before the element.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, is_element, job_name
from pit_protocol.notifications import parse_events
from pit_protocol.states import (
    JOB_MOVES,
    PROCESS_MOVES,
    JobEvent,
    JobState,
    KilledBy,
    Outcome,
    ProcessEvent,
    ProcessState,
)
from pit_server import metrics
from pit_server.db.database import (
    AnyRow,
    change_orders,
    measure_after_commit,
    note_event,
    notify_after_commit,
)
from pit_server.db.models import IS_LIVE, Attempt, Dependency, Job, Process
from pit_server.services.jobs.arrays import progress
from pit_server.services.notifications import outbox
from pit_server.wakeups import SCHEDULER, STATUS, job_topic

HEAD = "head"


class IllegalMove(Exception):
    """The state table has no move for this event from this state."""


class StaleState(Exception):
    """Another transaction changed the state first; read it again."""


@dataclass(frozen=True)
class LockedJob:
    """The state of a job; valid until the end of the transaction that locked it."""

    number: int
    state: JobState
    attempt: int
    outcome: Outcome | None
    reason: str
    array_size: int | None = None  # of an array
    notify: str = ""  # events that its user is told of
    since: float = inf  # when it entered its state


def lock(session: Session, number: int) -> LockedJob:
    """Lock the job's row until this transaction ends, and that of its array before it."""
    if is_element(number):
        _lock(session, array_of(number))
    return _lock(session, number)


def _lock(session: Session, number: int) -> LockedJob:
    columns = (Job.state, Job.attempt, Job.outcome, Job.reason, Job.array_size, Job.notify, Job.since)
    row = session.execute(select(*columns).where(Job.id == number).with_for_update()).one()
    outcome = Outcome(row.outcome) if row.outcome else None
    return LockedJob(
        number, JobState(row.state), row.attempt, outcome, row.reason, row.array_size, row.notify, row.since
    )


def advance(
    session: Session,
    job: LockedJob,
    event: JobEvent,
    *,
    now: float,
    actor: str = HEAD,
    reason: str = "",
    outcome: Outcome | None = None,
    process_id: int | None = None,
) -> LockedJob:
    """Apply an event to a job; raises IllegalMove or StaleState."""
    target = JOB_MOVES.get((job.state, event))
    if target is None:
        raise IllegalMove(f"job {job.number} is {job.state}: no move for event `{event}`")
    after = replace(job, state=target, attempt=job.attempt + (event is JobEvent.REQUEUED))
    if outcome is not None:
        after = replace(after, outcome=outcome, reason=reason)
    moved = session.execute(
        update(Job)
        .where(Job.id == job.number, Job.state == job.state)
        .values(
            state=after.state,
            attempt=after.attempt,
            since=Job.since if target is job.state else now,
            outcome=after.outcome,
            reason=after.reason,
        )
    )
    if moved.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleState(f"job {job.number} is no longer {job.state}")
    note_event(
        session,
        job_id=job.number,
        attempt=job.attempt,
        event=event,
        from_state=job.state,
        to_state=target,
        actor=actor,
        reason=reason,
        at=now,
        process_id=process_id,
    )
    notify_after_commit(session, job_topic(job.number), STATUS)
    if target in (JobState.WAITING, JobState.ENDED):
        notify_after_commit(session, SCHEDULER)
    if target is JobState.ENDED and not is_element(job.number):
        _end_dependencies(session, after)
    _measure(session, job, after, now=now)
    if job.notify:
        _tell(session, after, event, reason or after.reason, now=now)
    if is_element(job.number):
        array = _lock(session, array_of(job.number))
        if event is JobEvent.STALLED and array.notify:
            _tell(session, array, event, f"{job_name(job.number)}: {reason}", now=now)
        _advance_array(session, array, target, now=now)
    return after


def _measure(session: Session, before: LockedJob, after: LockedJob, *, now: float) -> None:
    """Measure how long jobs wait and run; those of an array are its elements."""
    if before.state is after.state or before.array_size is not None:
        return
    spent_s = max(0.0, now - before.since)
    if before.state is JobState.WAITING and after.state is JobState.STARTING:
        measure_after_commit(session, metrics.JOB_WAIT_SECONDS.observe, spent_s)
    elif before.state is JobState.RUNNING:
        measure_after_commit(session, metrics.JOB_RUN_SECONDS.observe, spent_s)
    if after.state is JobState.ENDED:
        measure_after_commit(session, metrics.JOBS_ENDED.labels(after.outcome).inc, 1)


def _tell(session: Session, job: LockedJob, event: JobEvent, reason: str, *, now: float) -> None:
    """Tell the job's user of an event, if they asked for that."""
    told = outbox.event_of(event, job.state, job.outcome)
    if told in parse_events(job.notify):
        outbox.tell_of_job(session, job.number, job.attempt, told, reason=reason, now=now)


def _end_dependencies(session: Session, job: LockedJob) -> None:
    """Tell the jobs that wait for this one how it ended; it waits for none itself any more."""
    session.execute(delete(Dependency).where(Dependency.job_id == job.number))
    told = update(Dependency).where(Dependency.needs_id == job.number)
    session.execute(told.values(outcome=job.outcome))


def _advance_array(session: Session, array: LockedJob, target: JobState, *, now: float) -> None:
    """An array runs as soon as one of its elements does, and ends with the last of them."""
    notify_after_commit(session, job_topic(array.number))
    if target is JobState.RUNNING and array.state is JobState.STARTING:
        advance(session, array, JobEvent.STARTED, now=now)
    elif target is JobState.ENDED:
        settle_array(session, array, now=now)


def settle_array(session: Session, array: LockedJob, *, now: float) -> LockedJob:
    """End an array if all of its elements have ended, or none that is left will start."""
    waits = select(Job.id).where(Job.id == array.number, Job.array_next.is_not(None))
    if array.state is JobState.ENDED:
        return array
    if array.state is not JobState.STOPPING and session.execute(waits).first():
        return array
    counts = progress.count(session, [array.number])[array.number]
    if counts.live:
        return array
    outcome, reason = array.outcome, array.reason
    if outcome is None:
        outcome, reason = counts.outcome, counts.describe(array.array_size or 0)
    return advance(session, array, JobEvent.SETTLED, now=now, outcome=outcome, reason=reason)


def stop(
    session: Session,
    job: LockedJob,
    *,
    by: KilledBy,
    outcome: Outcome,
    reason: str,
    now: float,
    actor: str = HEAD,
    process_id: int | None = None,
    event: JobEvent | None = None,
) -> LockedJob:
    """Stop a job and order its live processes to stop. `process_id` is the process that failed, if any."""
    event = event or (JobEvent.STOP if process_id is None else JobEvent.FAILED)
    after = advance(
        session, job, event, now=now, actor=actor, reason=reason, outcome=outcome, process_id=process_id
    )
    if job.array_size is not None:
        return _stop_elements(session, after, by=by, outcome=outcome, reason=reason, now=now, actor=actor)
    stop_processes(session, job, by=by, now=now, actor=actor)
    if process_id is None and after.state is JobState.STOPPING and not list_live(session, job.number):
        # It was about to be requeued, so nobody else would end it.
        return advance(session, after, JobEvent.SETTLED, now=now, outcome=outcome, reason=reason)
    return after


def _stop_elements(
    session: Session,
    array: LockedJob,
    *,
    by: KilledBy,
    outcome: Outcome,
    reason: str,
    now: float,
    actor: str,
) -> LockedJob:
    """Stop what has begun of an array; it ends with the last of these elements, or now."""
    is_live = Job.state.not_in((JobState.STOPPING, JobState.ENDED))
    live = select(Job.id).where(Job.array_job == array.number, is_live).order_by(Job.id)
    for number in list(session.execute(live).scalars()):
        element = _lock(session, number)
        stop(session, element, by=by, outcome=outcome, reason=reason, now=now, actor=actor)
    return settle_array(session, _lock(session, array.number), now=now)


def stop_processes(session: Session, job: LockedJob, *, by: KilledBy, now: float, actor: str = HEAD) -> None:
    """Order the job's live processes to stop; the job keeps its state."""
    for process in list_live(session, job.number):
        if move_process(session, process, ProcessEvent.STOP, now=now, actor=actor, stop_by=by):
            change_orders(session, process.node_id)


def move_process(
    session: Session,
    process: AnyRow,
    event: ProcessEvent,
    *,
    now: float,
    actor: str,
    reason: str = "",
    **values: object,
) -> bool:
    """Apply an event to a process of a locked job; False if there is no such move from its state."""
    state = ProcessState(process.state)
    target = PROCESS_MOVES.get((state, event))
    if target is None:
        return False
    if reason:
        values["reason"] = reason
    moved = session.execute(
        update(Process).where(Process.id == process.id, Process.state == state).values(state=target, **values)
    )
    if moved.rowcount != 1:  # type: ignore[attr-defined]
        return False
    note_event(
        session,
        job_id=process.job_id,
        attempt=process.attempt,
        event=event,
        from_state=state,
        to_state=target,
        actor=actor,
        reason=reason,
        at=now,
        process_id=process.id,
    )
    notify_after_commit(session, job_topic(process.job_id), job_topic(array_of(process.job_id)), STATUS)
    return True


PROCESSES = select(
    Process.id,
    Process.job_id,
    Process.attempt_id,
    Process.node_id,
    Process.state,
    Process.group_index,
    Process.process_index,
    Process.rank,
    Attempt.number.label("attempt"),
).join(Attempt, Attempt.id == Process.attempt_id)


def get_process(session: Session, process_id: int) -> AnyRow | None:
    return session.execute(PROCESSES.where(Process.id == process_id)).one_or_none()


def list_live(session: Session, number: int) -> Sequence[AnyRow]:
    """The job's processes that have not ended."""
    query = PROCESSES.where(Process.job_id == number, IS_LIVE)
    return session.execute(query.order_by(Process.rank)).all()
