"""The only writer of states: every change is a guarded UPDATE with its event in the same transaction.

What changes in the same way changes by one statement, however many jobs or processes it concerns.

Lock the job before changing its processes. Otherwise two processes that end at the same time
could each see the other as still running, and the job would never end. In the same way, the array of an
element is locked before the element.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Update, bindparam, delete, select, update
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
from pit_server.db.memo import remembered
from pit_server.db.models import IS_LIVE, Attempt, Dependency, Job, Process
from pit_server.services.jobs.arrays import progress
from pit_server.services.jobs.locked_jobs import LockedJob as LockedJob
from pit_server.services.jobs.locked_jobs import lock as lock
from pit_server.services.jobs.locked_jobs import lock_all as lock_all
from pit_server.services.jobs.locked_jobs import lock_rows
from pit_server.services.notifications import outbox
from pit_server.wakeups import SCHEDULER, STATUS, end_topic, job_topic

HEAD = "head"
ID, STATE = "known_id", "known_state"  # parameters that are no columns


class IllegalMove(Exception):
    """The state table has no move for this event from this state."""


class StaleState(Exception):
    """Another transaction changed the state first; read it again."""


class ProcessMove(NamedTuple):
    """An event of a process of a locked job, and what else is known of it then."""

    process: AnyRow
    event: ProcessEvent
    reason: str = ""
    values: Mapping[str, Any] = {}


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
    [after] = advance_all(
        session,
        [job],
        event,
        now=now,
        actor=actor,
        reasons={job.number: reason},
        outcome=outcome,
        process_ids={} if process_id is None else {job.number: process_id},
    )
    return after


def advance_all(
    session: Session,
    jobs: Collection[LockedJob],
    event: JobEvent,
    *,
    now: float,
    actor: str = HEAD,
    reasons: Mapping[int, str],
    outcome: Outcome | None = None,
    process_ids: Mapping[int, int] | None = None,
) -> list[LockedJob]:
    """Apply an event to jobs; raises IllegalMove or StaleState if it cannot be applied to all of them.

    `process_ids` are the processes that caused it, by job.
    """
    moves = [(job, _target(job, event, reasons[job.number], outcome, now)) for job in jobs]
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for job, after in moves:
        alike[job.state, after.state, after.attempt, after.outcome, after.reason].append(job.number)
        note_event(
            session,
            job_id=job.number,
            attempt=job.attempt,
            event=event,
            from_state=job.state,
            to_state=after.state,
            actor=actor,
            reason=reasons[job.number],
            at=now,
            process_id=(process_ids or {}).get(job.number),
        )
        notify_after_commit(session, job_topic(job.number), STATUS)
        if after.state in (JobState.WAITING, JobState.ENDED):
            notify_after_commit(session, SCHEDULER)
        if after.state is JobState.ENDED:
            notify_after_commit(session, end_topic(job.number))
    for (state, *values), numbers in alike.items():
        columns = dict(zip(("state", "attempt", "outcome", "reason"), values, strict=True))
        since = {} if columns["state"] is state else {"since": now}
        moved = session.execute(
            update(Job).where(Job.id.in_(numbers), Job.state == state).values(**columns, **since)
        )
        if moved.rowcount != len(numbers):  # type: ignore[attr-defined]
            raise StaleState(f"job {job_name(numbers[0])} is no longer {state}")
    for job, after in moves:
        _measure(session, job, after, now=now)
        if job.notify:
            _tell(session, after, event, reasons[job.number] or after.reason, now=now)
    found = [after for _, after in moves]
    _end_dependencies(session, [job for job in found if job.state is JobState.ENDED])
    _advance_arrays(session, found, event, reasons, now=now)
    return found


def _target(job: LockedJob, event: JobEvent, reason: str, outcome: Outcome | None, now: float) -> LockedJob:
    """The job after the event."""
    target = JOB_MOVES.get((job.state, event))
    if target is None:
        raise IllegalMove(f"job {job_name(job.number)} is {job.state}: no move for event `{event}`")
    since = job.since if target is job.state else now
    attempt = job.attempt + (event is JobEvent.REQUEUED)
    after = replace(job, state=target, attempt=attempt, since=since)
    return after if outcome is None else replace(after, outcome=outcome, reason=reason)


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


def _end_dependencies(session: Session, ended: Collection[LockedJob]) -> None:
    """Tell the jobs that wait for these how they ended; they wait for none themselves any more."""
    some = select(Dependency.job_id).limit(1)
    has_any = remembered(
        session, "is any job dependent", (Dependency,), lambda reader: reader.execute(some).all()
    )
    if not has_any:
        return
    numbers: defaultdict[Outcome | None, list[int]] = defaultdict(list)
    for job in ended:
        if not is_element(job.number):
            numbers[job.outcome].append(job.number)
    for outcome, alike in numbers.items():
        session.execute(delete(Dependency).where(Dependency.job_id.in_(alike)))
        session.execute(update(Dependency).where(Dependency.needs_id.in_(alike)).values(outcome=outcome))


def _advance_arrays(
    session: Session,
    moved: Collection[LockedJob],
    event: JobEvent,
    reasons: Mapping[int, str],
    *,
    now: float,
) -> None:
    """An array runs as soon as one of its elements does, and ends with the last of them."""
    elements = [job for job in moved if is_element(job.number)]
    states: defaultdict[int, set[JobState]] = defaultdict(set)
    for job in elements:
        states[array_of(job.number)].add(job.state)
    arrays = lock_rows(session, states, Job.id.desc()) if states else {}
    for job in elements if event is JobEvent.STALLED else ():
        if (array := arrays[array_of(job.number)]).notify:
            _tell(session, array, event, f"{job_name(job.number)}: {reasons[job.number]}", now=now)
    for number, array in arrays.items():
        notify_after_commit(session, job_topic(number))
        if JobState.RUNNING in states[number] and array.state is JobState.STARTING:
            array = advance(session, array, JobEvent.STARTED, now=now)
        if JobState.ENDED in states[number]:
            settle_array(session, array, now=now)


def settle_array(session: Session, array: LockedJob, *, now: float) -> LockedJob:
    """End an array if all of its elements have ended, or none that is left will start."""
    if array.state is JobState.ENDED or (
        array.state is not JobState.STOPPING and array.array_next is not None
    ):
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
        element = lock_rows(session, [number])[number]
        stop(session, element, by=by, outcome=outcome, reason=reason, now=now, actor=actor)
    return settle_array(session, lock(session, array.number), now=now)


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
    try:
        move = ProcessMove(process, event, reason, values)
        return bool(move_processes(session, [move], now=now, actor=actor))
    except StaleState:
        return False


def move_processes(
    session: Session, moves: Collection[ProcessMove], *, now: float, actor: str
) -> list[ProcessMove]:
    """Apply events to processes of locked jobs; returns those that were moves, or raises StaleState."""
    made = [move for move in moves if _process_target(move)]
    alike: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for move in made:
        process, target = move.process, _process_target(move)
        values = {**move.values, "reason": move.reason} if move.reason else dict(move.values)
        row = {**values, "state": target, ID: process.id, STATE: process.state}
        alike[tuple(sorted({*values, "state"}))].append(row)
        note_event(
            session,
            job_id=process.job_id,
            attempt=process.attempt,
            event=move.event,
            from_state=process.state,
            to_state=target,
            actor=actor,
            reason=move.reason,
            at=now,
            process_id=process.id,
        )
        notify_after_commit(session, job_topic(process.job_id), job_topic(array_of(process.job_id)), STATUS)
    for columns, rows in alike.items():
        moved = session.connection().execute(_guarded_update(columns), rows)
        if moved.rowcount != len(rows):
            raise StaleState(f"one of {len(rows)} processes is in another state")
    return made


def _process_target(move: ProcessMove) -> ProcessState | None:
    return PROCESS_MOVES.get((ProcessState(move.process.state), move.event))


@lru_cache(maxsize=100)
def _guarded_update(columns: tuple[str, ...]) -> Update:
    table = Process.__table__
    is_same = (table.c.id == bindparam(ID)) & (table.c.state == bindparam(STATE))
    return update(table).where(is_same).values({name: bindparam(name) for name in columns})  # type: ignore[arg-type]


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
    Attempt.requeue_cause,
).join(Attempt, Attempt.id == Process.attempt_id)


def get_process(session: Session, process_id: int) -> AnyRow | None:
    return session.execute(PROCESSES.where(Process.id == process_id)).one_or_none()


def list_live(session: Session, number: int) -> Sequence[AnyRow]:
    """The job's processes that have not ended."""
    query = PROCESSES.where(Process.job_id == number, IS_LIVE)
    return session.execute(query.order_by(Process.rank)).all()
