"""Stalled jobs: those of which no process writes output or uses a core or a GPU.

They are found when samples arrive, which they do every half minute while a process runs, also if it does
nothing. A process of which nothing is heard may do anything, so its job is not stalled.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pit_protocol.durations import render_duration
from pit_protocol.job_times import Stall, parse_stall
from pit_protocol.messages.beat import Report, Usage
from pit_protocol.states import JobEvent, JobState, KilledBy, Outcome, ProcessState
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Attempt, Job, Process, Sample
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.records.usage import RECENT_S

IDLE_CPU_PERCENT = 2.0  # of a core: what a program may use that only waits
IDLE_GPU_PERCENT = 1.0


def note(session: Session, reports: Collection[Report], *, now: float) -> None:
    """Take note of what the processes of jobs with --stall do, and of jobs that do nothing."""
    measured = {report.process: report for report in reports if report.usage}
    watched = _list_watched(session, measured)
    _note_active(session, watched, measured, now=now)
    for number in sorted({row.job_id for row in watched}):
        rule = parse_stall(next(row.options["stall"] for row in watched if row.job_id == number))
        _check(session, number, rule, now=now)


def _list_watched(session: Session, processes: Collection[int]) -> list[AnyRow]:
    """Those of these processes whose jobs have --stall."""
    query = (
        select(Process.id, Process.job_id, Process.log_size, Job.options)
        .join(Job, Job.id == Process.job_id)
        .where(Process.id.in_(processes), Job.state == JobState.RUNNING)
    )
    return [row for row in session.execute(query) if row.options.get("stall")]


def _note_active(
    session: Session, watched: Collection[AnyRow], measured: Mapping[int, Report], *, now: float
) -> None:
    for row in watched:
        report = measured[row.id]
        if report.log_size > row.log_size or (report.usage and _is_used(report.usage)):
            active = {"active_at": now, "log_size": max(report.log_size, row.log_size)}
            session.execute(update(Process).where(Process.id == row.id).values(active))


def _is_used(usage: Usage) -> bool:
    return (usage.cpu_percent or 0.0) > IDLE_CPU_PERCENT or (usage.gpu_percent or 0.0) > IDLE_GPU_PERCENT


def _check(session: Session, number: int, rule: Stall, *, now: float) -> None:
    """Tell of a job that does nothing any more, once, and stop it if its rule says so."""
    job = lifecycle.lock(session, number)
    if job.state is not JobState.RUNNING:
        return
    mine = (Attempt.job_id == number) & (Attempt.number == job.attempt)
    stalled_at = session.execute(select(Attempt.stalled_at).where(mine)).scalar_one()
    if not _is_idle(session, number, since=now - rule.after_s, now=now):
        if stalled_at is not None:
            session.execute(update(Attempt).where(mine).values(stalled_at=None))
        return
    if stalled_at is not None:
        return
    session.execute(update(Attempt).where(mine).values(stalled_at=now))
    reason = f"no process has written output or used a core or GPU for {render_duration(rule.after_s)}"
    job = lifecycle.advance(session, job, JobEvent.STALLED, now=now, reason=reason)
    if rule.stops:
        lifecycle.stop(
            session,
            job,
            by=KilledBy.STALL,
            outcome=Outcome.FAILED,
            reason=f"stalled: {reason}",
            now=now,
            event=JobEvent.FAILED,
        )


def _is_idle(session: Session, number: int, *, since: float, now: float) -> bool:
    """Whether all live processes of a job run, are heard of, and have done nothing since then."""
    latest = func.max(Sample.at)
    rows = session.execute(
        select(Process.state, Process.started_at, Process.active_at, latest.label("heard_at"))
        .outerjoin(Sample, Sample.process_id == Process.id)
        .where(Process.job_id == number, IS_LIVE)
        .group_by(Process.id, Process.state, Process.started_at, Process.active_at)
    ).all()
    return bool(rows) and all(
        row.state == ProcessState.RUNNING
        and (row.heard_at or 0.0) >= now - RECENT_S
        and max(row.started_at or now, row.active_at or 0.0) <= since
        for row in rows
    )
