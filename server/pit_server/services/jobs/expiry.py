"""Job directories that are past their retention time."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState
from pit_server.db.models import Job
from pit_server.services.files import trash
from pit_server.store.data_root import DataRoot

HEAD = "head"


def discard_old(session: Session, data: DataRoot, days: int, *, now: float) -> list[int]:
    """Move directories of old ended jobs to the trash, unless marked `keep`; returns the job numbers."""
    old = session.execute(
        select(Job.id).where(
            Job.state == JobState.ENDED,
            Job.since < now - days * DAY_S,
            Job.is_kept.is_(False),
            Job.removed_at.is_(None),
        )
    ).scalars()
    discarded = []
    for number in old:
        directory = data.job(number)
        if directory.is_dir():
            place = f"job-{number}-{int(now)}"
            trash.note(session, f"job:{number}", "", place, HEAD, now=now)
            directory.rename(data.trash / place)
            discarded.append(number)
    return discarded
