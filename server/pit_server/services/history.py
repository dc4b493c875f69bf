"""How far back the head remembers: ended jobs of a user, and rows of the audit."""

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState
from pit_server.db.models import Audit, Fact, Job
from pit_server.services.files import removed
from pit_server.services.files.removed import Kind

AUDIT_FROM = "audit_from"  # rows with a lower number may be deleted
HEAD = "head"
BATCH = 1000  # jobs in one transaction


def discard_excess_jobs(session: Session, most: int, *, now: float) -> int:
    """Move the oldest ended jobs of users who have more than `most` to the trash; returns how many."""
    is_history = (Job.state == JobState.ENDED) & Job.removed_at.is_(None) & Job.is_kept.is_(False)
    is_history &= Job.array_job.is_(None)  # elements go with their array
    counts = select(Job.user_id, func.count()).where(is_history).group_by(Job.user_id)
    numbers: list[int] = []
    for user_id, count in session.execute(counts.having(func.count() > most)).all():
        oldest = select(Job.id).where(is_history, Job.user_id == user_id).order_by(Job.id)
        numbers += session.execute(oldest.limit(min(count - most, BATCH))).scalars()
    for number in numbers:
        removed.note(session, f"job:{number}", HEAD, now=now, kind=Kind.JOB)
    session.execute(update(Job).where(Job.id.in_(numbers)).values(removed_at=now))
    return len(numbers)


def prune_audit(session: Session, days: int, most: int, *, now: float) -> int:
    """Delete rows older than `days`, and the oldest if there are more than `most`; returns how many."""
    newest = session.execute(select(func.max(Audit.id))).scalar() or 0
    first = newest - most + 1 if most else 0
    if days:
        recent = select(func.min(Audit.id)).where(Audit.at >= now - days * DAY_S)
        first = max(first, session.execute(recent).scalar() or newest + 1)
    count = session.execute(select(func.count()).where(Audit.id < first)).scalar_one()
    if count:
        session.merge(Fact(name=AUDIT_FROM, value=str(first)))
        session.flush()
        session.execute(delete(Audit).where(Audit.id < first))
    return count
