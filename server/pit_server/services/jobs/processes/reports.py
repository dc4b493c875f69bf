"""Process reports of workers, and their effect on jobs."""

from collections.abc import Collection
from signal import Signals
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.job_options import FIRST
from pit_protocol.messages.beat import Report
from pit_protocol.states import JobEvent, JobState, KilledBy, Outcome, ProcessEvent, ProcessState
from pit_server.db.database import AnyRow, notify_after_commit
from pit_server.db.models import Allocation, Job
from pit_server.services.jobs import lifecycle, requeue
from pit_server.services.jobs.lifecycle import LockedJob
from pit_server.services.users import tokens
from pit_server.services.validation import storable
from pit_server.wakeups import PREPARER, SCHEDULER

MAX_IMAGE = 500

_REPORTED = {
    ProcessState.STARTING: ProcessEvent.TAKEN,
    ProcessState.RUNNING: ProcessEvent.STARTED,
    ProcessState.ENDED: ProcessEvent.ENDED,
}


def event_of(report: Report) -> ProcessEvent | None:
    """What a report means for its process; a stop is news only if the worker decided on it."""
    if report.state is ProcessState.STOPPING and report.killed_by is KilledBy.TIME:
        return ProcessEvent.STOP
    return _REPORTED.get(report.state)


def apply_report(session: Session, report: Report, *, node: str, now: float) -> None:
    """Apply a worker's report on a process; a repeated or outdated report changes nothing."""
    event = event_of(report)
    found = lifecycle.get_process(session, report.process)
    if event is None or found is None or found.attempt != report.attempt:
        return
    job = lifecycle.lock(session, found.job_id)
    # Read it again: it may have changed before the lock.
    process = lifecycle.get_process(session, report.process) or found
    actor = f"node:{node}"
    if event is ProcessEvent.ENDED:
        if _end(session, process, report, now=now, actor=actor):
            release(session, [process.id], now=now)
            _settle(session, job, process, report, now=now)
        return
    if event is ProcessEvent.STOP:
        if job.state in (JobState.STARTING, JobState.RUNNING):
            _time_out(session, job, process, report, now=now)
        return
    moved = lifecycle.move_process(session, process, event, now=now, actor=actor, **_start(report))
    if moved and event is ProcessEvent.STARTED and job.state is JobState.STARTING:
        lifecycle.advance(session, job, JobEvent.STARTED, now=now)


def end_lost(session: Session, process: AnyRow, reason: str, *, now: float, actor: str) -> None:
    """End a process whose end nobody saw. Its allocations stay, because it may still run."""
    job = lifecycle.lock(session, process.job_id)
    process = lifecycle.get_process(session, process.id) or process
    report = Report(
        process.id, process.attempt, ProcessState.ENDED, killed_by=KilledBy.NODE, reason=reason, ended_at=now
    )
    if _end(session, process, report, now=now, actor=actor):
        _settle(session, job, process, report, now=now)


def release(session: Session, process_ids: Collection[int], *, now: float) -> None:
    """Release the allocations of processes."""
    session.execute(
        update(Allocation)
        .where(Allocation.process_id.in_(process_ids), Allocation.released_at.is_(None))
        .values(released_at=now)
    )
    notify_after_commit(session, SCHEDULER)


def _end(session: Session, process: AnyRow, report: Report, *, now: float, actor: str) -> bool:
    """Record the end of a process; False if it is recorded already."""
    return lifecycle.move_process(
        session,
        process,
        ProcessEvent.ENDED,
        now=now,
        actor=actor,
        reason=_how_ended(report),
        exit_code=report.exit_code,
        signal=report.signal,
        killed_by=report.killed_by,
        oom=report.oom,
        node_fault=report.node_fault,
        ended_at=report.ended_at or now,
        **_start(report),
    )


def _settle(session: Session, job: LockedJob, process: AnyRow, report: Report, *, now: float) -> None:
    """Stop the job if the process failed; end it, or begin to requeue it, if that was the last one."""
    how = _how_ended(report)
    is_requeued = requeue.is_pending(session, job, process, report, how)
    if is_requeued:
        lifecycle.stop_processes(session, job, by=KilledBy.JOB, now=now)
    elif report.killed_by is KilledBy.TIME and job.state in (JobState.STARTING, JobState.RUNNING):
        job = _time_out(session, job, process, report, now=now)
    elif _is_enough(session, job, report):
        job = lifecycle.stop(
            session,
            job,
            by=KilledBy.JOB,
            outcome=Outcome.SUCCEEDED,
            reason=f"worker {process.rank} ended first",
            now=now,
            process_id=process.id,
            event=JobEvent.FINISHED,
        )
    # A killed process has not finished its work, even if it exits with 0.
    elif (report.exit_code != 0 or report.killed_by) and job.state in (JobState.STARTING, JobState.RUNNING):
        job = lifecycle.stop(
            session,
            job,
            by=KilledBy.JOB,
            outcome=Outcome.LOST if report.killed_by in requeue.NODE_LOST else Outcome.FAILED,
            reason=f"worker {process.rank} {how}{requeue.describe_limit(session, job)}",
            now=now,
            process_id=process.id,
        )
    if not lifecycle.list_live(session, job.number):
        tokens.revoke_of_attempt(session, process.attempt_id)
        if is_requeued:
            notify_after_commit(session, PREPARER)
            return
        outcome = job.outcome or Outcome.SUCCEEDED
        lifecycle.advance(session, job, JobEvent.SETTLED, now=now, outcome=outcome, reason=job.reason)


def _is_enough(session: Session, job: LockedJob, report: Report) -> bool:
    """Whether a process has ended well, and the job need not wait for its others."""
    if report.exit_code != 0 or report.killed_by or job.state not in (JobState.STARTING, JobState.RUNNING):
        return False
    until = select(Job.options["until"].as_string()).where(Job.id == job.number)
    if session.execute(until).scalar_one() != FIRST:
        return False
    return bool(lifecycle.list_live(session, job.number))


def _time_out(session: Session, job: LockedJob, process: AnyRow, report: Report, *, now: float) -> LockedJob:
    """One process has reached the time limit: all others have, too."""
    return lifecycle.stop(
        session,
        job,
        by=KilledBy.TIME,
        outcome=Outcome.TIMED_OUT,
        reason=storable(report.reason),
        now=now,
        process_id=process.id,
        event=JobEvent.TIMED_OUT,
    )


def _start(report: Report) -> dict[str, Any]:
    """Start time and image, if the report has them; a later report may not."""
    facts = {"started_at": report.started_at, "image": storable(report.image)[:MAX_IMAGE]}
    return {name: fact for name, fact in facts.items() if fact}


def _how_ended(report: Report) -> str:
    if report.reason:
        how = "is lost" if report.killed_by is KilledBy.NODE else "ended"
        return f"{how}: {storable(report.reason)}"
    memory = "; it ran out of memory" if report.oom else ""
    if report.signal is not None:
        return f"was killed by signal {_signal_name(report.signal)}{memory}"
    return ("ended" if report.exit_code is None else f"ended with exit code {report.exit_code}") + memory


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({Signals(number).name})"
    except ValueError:
        return str(number)
