"""What the attempts of jobs have waited for, stored when they start."""

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_server.db.models import Attempt, Job
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs.records import delays
from pit_server.services.users.tokens import Caller


def store(session: Session, number: int, reason: Reason) -> None:
    """Store the last reason why the job waited for its current attempt."""
    current = select(Job.attempt).where(Job.id == number).scalar_subquery()
    session.execute(
        update(Attempt)
        .where(Attempt.job_id == number, Attempt.number == current)
        .values(waited_for={"text": reason.text, "jobs": list(reason.jobs), "more": reason.more})
    )


def describe(session: Session, caller: Caller, job: Job) -> str:
    """What the job waited for, in the words that the caller may read; empty if that is not known."""
    query = select(Attempt.waited_for).where(Attempt.job_id == job.id, Attempt.number == job.attempt)
    stored: dict[str, Any] = session.execute(query).scalar() or {}
    if not stored:
        return ""
    reason = Reason(stored["text"], tuple(stored["jobs"]), stored["more"])
    return reason.render(delays.job_names(session, caller, reason.jobs))
