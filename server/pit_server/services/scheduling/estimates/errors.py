"""How good the estimates of starts were: the first estimate of each job, and when it really started."""

from statistics import median

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.answers.queue import EstimateErrors
from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState
from pit_server.db.models import Attempt, Job
from pit_server.services.scheduling.estimates.start_range import StartRange

DAYS = 7
MAX_JOBS = 2_000  # the newest that started


def store_first(session: Session, number: int, start: StartRange, *, now: float) -> None:
    """Keep the first estimate of a waiting job; later ones are better, and say less."""
    session.execute(
        update(Job)
        .where(Job.id == number, Job.state == JobState.WAITING, Job.estimated_at.is_(None))
        .values(estimated_at=now, starts_from=start.earliest, starts_by=start.latest)
    )


def measure(session: Session, *, now: float) -> EstimateErrors:
    """Compare the estimates of the last days with the starts."""
    newest = select(Attempt.job_id, Attempt.created_at).where(Attempt.number == 1)
    started = newest.order_by(Attempt.id.desc()).limit(MAX_JOBS).subquery()
    rows = session.execute(
        select(Job.starts_from, Job.starts_by, started.c.created_at)
        .join(started, started.c.job_id == Job.id)
        .where(Job.estimated_at.is_not(None), started.c.created_at > now - DAYS * DAY_S)
    ).all()
    errors = [abs(row.created_at - (row.starts_from + row.starts_by) / 2) for row in rows]
    inside = sum(row.starts_from <= row.created_at <= row.starts_by for row in rows)
    return EstimateErrors(
        days=DAYS,
        jobs=len(rows),
        median_error_s=median(errors) if errors else None,
        inside_percent=100 * inside / len(rows) if rows else None,
    )
