"""The only writer of states: every change is a guarded UPDATE with its event in the same transaction."""

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.beat import Report
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
from pit_server.bells import SCHEDULER, STATUS, job_bell
from pit_server.db.database import AnyRow, change_orders, ring_after_commit
from pit_server.db.models import Allocation, Attempt, Event, Job, Process

HEAD = "head"
# What a worker's report of a state means as an event.
REPORTED = {
    ProcessState.STARTING: ProcessEvent.TAKEN,
    ProcessState.RUNNING: ProcessEvent.STARTED,
    ProcessState.ENDED: ProcessEvent.ENDED,
}


class IllegalMove(Exception):
    """This event leads nowhere from this state."""


class Overtaken(Exception):
    """Someone else changed it first: look again."""


def advance(
    session: Session,
    number: int,
    event: JobEvent,
    *,
    now: float,
    actor: str = HEAD,
    reason: str = "",
    outcome: Outcome | None = None,
    process_id: int | None = None,
) -> JobState:
    """Move a job along an event; IllegalMove or Overtaken if it is not where that leads on."""
    # The row stays locked to the end of the transaction: whoever moves a job's processes moves the job first.
    row = session.execute(select(Job.state, Job.attempt).where(Job.id == number).with_for_update()).one()
    state = JobState(row.state)
    target = JOB_MOVES.get((state, event))
    if target is None:
        raise IllegalMove(f"job {number} is {state}; {event} leads nowhere")
    values: dict[str, object] = {"state": target, "since": now}
    if outcome is not None:
        values.update(outcome=outcome, reason=reason)
    moved = session.execute(update(Job).where(Job.id == number, Job.state == state).values(values))
    if moved.rowcount != 1:  # type: ignore[attr-defined]
        raise Overtaken(f"job {number} is no longer {state}")
    session.add(_event(number, row.attempt, event, state, target, actor, reason, now, process_id))
    ring_after_commit(session, job_bell(number), STATUS)
    if target in (JobState.WAITING, JobState.ENDED):
        ring_after_commit(session, SCHEDULER)
    return target


def stop(
    session: Session,
    number: int,
    *,
    by: KilledBy,
    outcome: Outcome,
    reason: str,
    now: float,
    actor: str = HEAD,
    process_id: int | None = None,
) -> JobState:
    """End a job wherever it is; its live processes are told to stop. `process_id` is the one that failed."""
    event = JobEvent.STOP if process_id is None else JobEvent.FAILED
    state = advance(
        session, number, event, now=now, actor=actor, reason=reason, outcome=outcome, process_id=process_id
    )
    for process in _live(session, number):
        if _move_process(session, process, ProcessEvent.STOP, now=now, actor=actor, reason="", stop_by=by):
            change_orders(session, process.node_id)
    return state


def take_report(session: Session, report: Report, *, node: str, now: float) -> None:
    """Note what a worker says of a process; what is known already, or no longer true, changes nothing."""
    process = _find(session, report.process)
    if process is None or process.attempt != report.attempt:
        return
    event = REPORTED.get(report.state)
    if event is None:
        return
    actor = f"node:{node}"
    # Lock the job before its process: two processes that end at once must not both see the other alive.
    job = session.execute(select(Job.id, Job.state).where(Job.id == process.job_id).with_for_update()).one()
    if event is ProcessEvent.ENDED:
        if _end_process(session, process, report, now=now, actor=actor):
            _settle(session, process, report, now=now)
        return
    if _move_process(session, process, event, now=now, actor=actor, started_at=report.started_at):
        if event is ProcessEvent.STARTED and job.state == JobState.STARTING:
            advance(session, process.job_id, JobEvent.STARTED, now=now)
        ring_after_commit(session, job_bell(process.job_id), STATUS)


def _end_process(session: Session, process: AnyRow, report: Report, *, now: float, actor: str) -> bool:
    reason = report.reason or _how_ended(report)
    moved = _move_process(
        session,
        process,
        ProcessEvent.ENDED,
        now=now,
        actor=actor,
        reason=reason,
        exit_code=report.exit_code,
        signal=report.signal,
        killed_by=report.killed_by,
        ended_at=report.ended_at or now,
        **({"started_at": report.started_at} if report.started_at else {}),
    )
    if moved:
        session.execute(
            update(Allocation)
            .where(Allocation.process_id == process.id, Allocation.released_at.is_(None))
            .values(released_at=now)
        )
        change_orders(session, process.node_id)
        ring_after_commit(session, SCHEDULER, job_bell(process.job_id), STATUS)
    return moved


def _settle(session: Session, process: AnyRow, report: Report, *, now: float) -> None:
    """Draw the consequences of a process's end for its job."""
    number = process.job_id
    state = session.execute(select(Job.state).where(Job.id == number)).scalar_one()
    if report.exit_code != 0 and state in (JobState.STARTING, JobState.RUNNING):
        lost = report.killed_by is KilledBy.REBOOT
        reason = (
            f"process {process.group_index}.{process.process_index} {report.reason or _how_ended(report)}"
        )
        outcome = Outcome.LOST if lost else Outcome.FAILED
        stop(session, number, by=KilledBy.JOB, outcome=outcome, reason=reason, now=now, process_id=process.id)
    if not _live(session, number):
        known = session.execute(select(Job.outcome, Job.reason).where(Job.id == number)).one()
        outcome = Outcome(known.outcome) if known.outcome else Outcome.SUCCEEDED
        advance(session, number, JobEvent.SETTLED, now=now, outcome=outcome, reason=known.reason)


def _how_ended(report: Report) -> str:
    if report.signal is not None:
        return f"was ended by signal {report.signal}"
    return "ended" if report.exit_code is None else f"ended with exit code {report.exit_code}"


def _move_process(
    session: Session,
    process: AnyRow,
    event: ProcessEvent,
    *,
    now: float,
    actor: str,
    reason: str = "",
    **values: object,
) -> bool:
    """Move a process along an event; False if it is not where that leads on."""
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
    session.add(_event(process.job_id, process.attempt, event, state, target, actor, reason, now, process.id))
    return True


def _event(
    number: int,
    attempt: int,
    event: JobEvent | ProcessEvent,
    state: JobState | ProcessState | None,
    target: JobState | ProcessState,
    actor: str,
    reason: str,
    now: float,
    process_id: int | None = None,
) -> Event:
    return Event(
        job_id=number,
        attempt=attempt,
        event=event,
        from_state=state,
        to_state=target,
        actor=actor,
        reason=reason,
        at=now,
        process_id=process_id,
    )


_COLUMNS = (
    Process.id,
    Process.job_id,
    Process.node_id,
    Process.state,
    Process.group_index,
    Process.process_index,
    Attempt.number.label("attempt"),
)


def _find(session: Session, process_id: int) -> AnyRow | None:
    return session.execute(
        select(*_COLUMNS).join(Attempt, Attempt.id == Process.attempt_id).where(Process.id == process_id)
    ).one_or_none()


def _live(session: Session, number: int) -> Sequence[AnyRow]:
    return session.execute(
        select(*_COLUMNS)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .where(Process.job_id == number, Process.state != ProcessState.ENDED)
        .order_by(Process.id)
    ).all()
