"""Process reports of workers, and their effect on jobs."""

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from pit_protocol.job_options import FIRST
from pit_protocol.messages.beat import Report
from pit_protocol.states import JobEvent, JobState, KilledBy, Outcome, ProcessEvent, ProcessState
from pit_server.db.database import AnyRow, notify_after_commit
from pit_server.db.models import IS_LIVE, Process
from pit_server.services.jobs import lifecycle, requeue
from pit_server.services.jobs.lifecycle import LockedJob
from pit_server.services.jobs.processes.report_batch import ReportBatch, release
from pit_server.services.jobs.processes.report_facts import end_facts, event_of, how_ended, start_facts
from pit_server.services.users import tokens
from pit_server.services.validation import storable
from pit_server.wakeups import PREPARER


def apply_all(
    session: Session, reports: Sequence[Report], numbers: Collection[int], *, node: str, now: float
) -> None:
    """Apply a worker's reports on processes of these jobs; a repeated or outdated one changes nothing."""
    jobs = lifecycle.lock_all(session, numbers)
    # Read after the lock: only who holds it changes them.
    query = lifecycle.PROCESSES.where(Process.job_id.in_(numbers), IS_LIVE)
    live = {row.id: row for row in session.execute(query)}
    current = [
        report
        for report in reports
        if report.process in live and live[report.process].attempt == report.attempt
    ]
    batch = ReportBatch(current, live, jobs)
    batch.apply(session, actor=f"node:{node}", now=now)
    for report in batch.others:
        _apply_one(session, report, node=node, now=now)


def _apply_one(session: Session, report: Report, *, node: str, now: float) -> None:
    """Apply a report of a kind that changes more than its process and its job."""
    event, process = event_of(report), lifecycle.get_process(session, report.process)
    if event is None or process is None:
        return
    job = lifecycle.lock(session, process.job_id)
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
    moved = lifecycle.move_process(session, process, event, now=now, actor=actor, **start_facts(report))
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


def _end(session: Session, process: AnyRow, report: Report, *, now: float, actor: str) -> bool:
    """Record the end of a process; False if it is recorded already."""
    return lifecycle.move_process(
        session,
        process,
        ProcessEvent.ENDED,
        now=now,
        actor=actor,
        reason=how_ended(report),
        **end_facts(report, now=now),
    )


def _settle(session: Session, job: LockedJob, process: AnyRow, report: Report, *, now: float) -> None:
    """Stop the job if the process failed; end it, or begin to requeue it, if that was the last one."""
    how = how_ended(report)
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
        tokens.revoke_of_attempts(session, [process.attempt_id])
        if is_requeued:
            notify_after_commit(session, PREPARER)
            return
        outcome = job.outcome or Outcome.SUCCEEDED
        lifecycle.advance(session, job, JobEvent.SETTLED, now=now, outcome=outcome, reason=job.reason)


def _is_enough(session: Session, job: LockedJob, report: Report) -> bool:
    """Whether a process has ended well, and the job need not wait for its others."""
    if report.exit_code != 0 or report.killed_by or job.state not in (JobState.STARTING, JobState.RUNNING):
        return False
    return job.options.get("until") == FIRST and bool(lifecycle.list_live(session, job.number))


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
