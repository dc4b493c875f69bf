"""Jobs' directories that have been kept long enough."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.states import JobState
from pit_server.db.models import Job
from pit_server.services import trash
from pit_server.services.tokens import DAY_S
from pit_server.store.paths import DataRoot

HEAD = "head"


def discard_old(session: Session, data: DataRoot, days: int, *, now: float) -> list[int]:
    """Put directories of jobs that ended long ago into the trash, unless they are marked to be kept."""
    old = session.execute(
        select(Job.id).where(
            Job.state == JobState.ENDED,
            Job.since < now - days * DAY_S,
            Job.is_kept.is_(False),
            Job.removed_at.is_(None),
        )
    ).scalars()
    gone = []
    for number in old:
        directory = data.job(number)
        if directory.is_dir():
            place = f"job-{number}-{int(now)}"
            trash.note(session, f"job:{number}", "", place, HEAD, now=now)
            directory.rename(data.trash / place)
            gone.append(number)
    return gone
