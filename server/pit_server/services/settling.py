"""What workers report of processes, and what follows from it for their jobs."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from pit_protocol.beat import Report
from pit_protocol.states import JobEvent, JobState, KilledBy, Outcome, ProcessEvent, ProcessState
from pit_server.bells import SCHEDULER
from pit_server.db.database import AnyRow, ring_after_commit
from pit_server.db.models import Allocation
from pit_server.services import lifecycle, tokens
from pit_server.services.inputs import storable
from pit_server.services.lifecycle import JobNow

MAX_IMAGE = 500
NODE_LOST = (KilledBy.REBOOT, KilledBy.LEASE, KilledBy.NODE)

# What a worker's report of a state means as an event.
REPORTED = {
    ProcessState.STARTING: ProcessEvent.TAKEN,
    ProcessState.RUNNING: ProcessEvent.STARTED,
    ProcessState.ENDED: ProcessEvent.ENDED,
}


def take_report(session: Session, report: Report, *, node: str, now: float) -> None:
    """Note what a worker says of a process; what is known already, or no longer true, changes nothing."""
    event = REPORTED.get(report.state)
    found = lifecycle.get_process(session, report.process)
    if event is None or found is None or found.attempt != report.attempt:
        return
    job = lifecycle.lock(session, found.job_id)
    # Once more, now that nobody else can move it.
    process = lifecycle.get_process(session, report.process) or found
    actor = f"node:{node}"
    if event is ProcessEvent.ENDED:
        if _end(session, process, report, now=now, actor=actor):
            release(session, [process.id], now=now)
            _settle(session, job, process, report, now=now)
        return
    moved = lifecycle.move_process(session, process, event, now=now, actor=actor, **_start(report))
    if moved and event is ProcessEvent.STARTED and job.state is JobState.STARTING:
        lifecycle.advance(session, job, JobEvent.STARTED, now=now)


def lose(session: Session, process: AnyRow, reason: str, *, now: float, actor: str) -> None:
    """Settle a process whose end nobody saw. What it held on its node is not free for that."""
    job = lifecycle.lock(session, process.job_id)
    process = lifecycle.get_process(session, process.id) or process
    report = Report(
        process.id, process.attempt, ProcessState.ENDED, killed_by=KilledBy.NODE, reason=reason, ended_at=now
    )
    if _end(session, process, report, now=now, actor=actor):
        _settle(session, job, process, report, now=now)


def release(session: Session, process_ids: Collection[int], *, now: float) -> None:
    """Free what processes held."""
    session.execute(
        update(Allocation)
        .where(Allocation.process_id.in_(process_ids), Allocation.released_at.is_(None))
        .values(released_at=now)
    )
    ring_after_commit(session, SCHEDULER)


def _end(session: Session, process: AnyRow, report: Report, *, now: float, actor: str) -> bool:
    """Record a process's end; False if that is known."""
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
        ended_at=report.ended_at or now,
        **_start(report),
    )


def _settle(session: Session, job: JobNow, process: AnyRow, report: Report, *, now: float) -> None:
    """Draw the consequences of a process's end for its job."""
    # One that was ended has not done its work, though it may say so.
    if (report.exit_code != 0 or report.killed_by) and job.state in (JobState.STARTING, JobState.RUNNING):
        name = f"{process.group_index}.{process.process_index}"
        job = lifecycle.stop(
            session,
            job,
            by=KilledBy.JOB,
            outcome=Outcome.LOST if report.killed_by in NODE_LOST else Outcome.FAILED,
            reason=f"process {name} {_how_ended(report)}",
            now=now,
            process_id=process.id,
        )
    if not lifecycle.list_live(session, job.number):
        tokens.end_of_attempt(session, process.attempt_id)
        outcome = job.outcome or Outcome.SUCCEEDED
        lifecycle.advance(session, job, JobEvent.SETTLED, now=now, outcome=outcome, reason=job.reason)


def _start(report: Report) -> dict[str, Any]:
    """When and in what it started, where that is told: a later report may no longer know."""
    facts = {"started_at": report.started_at, "image": storable(report.image)[:MAX_IMAGE]}
    return {name: fact for name, fact in facts.items() if fact}


def _how_ended(report: Report) -> str:
    if report.reason:
        how = "is lost" if report.killed_by is KilledBy.NODE else "ended"
        return f"{how}: {storable(report.reason)}"
    memory = ", and ran out of memory" if report.oom else ""
    if report.signal is not None:
        return f"was ended by signal {report.signal}{memory}"
    return ("ended" if report.exit_code is None else f"ended with exit code {report.exit_code}") + memory
