"""Job directories that are past their retention time."""

import logging
import time

from sqlalchemy import select

from pit_protocol import atomic_file
from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState
from pit_server.db.database import Database
from pit_server.db.models import Discard, Job
from pit_server.services.files import removed, trash
from pit_server.store.data_root import DataRoot

HEAD = "head"
log = logging.getLogger(__name__)


def discard_old(database: Database, data: DataRoot, days: int, *, now: float) -> int:
    """Move directories of old ended jobs to the trash, unless marked `keep`; returns how many.

    `now` is for their age. In the trash they count from the wall clock, as everything there.
    """
    is_old = (
        (Job.state == JobState.ENDED)
        & (Job.since < now - days * DAY_S)
        & Job.is_kept.is_(False)
        & Job.removed_at.is_(None)
        & Job.array_job.is_(None)  # elements go with their array
    )
    with database.write() as session:
        old = [
            each
            for each in session.execute(select(Job.id).where(is_old)).scalars()
            if data.job(each).is_dir()
        ]
        rows = [removed.note(session, f"job:{number}", HEAD, now=time.time()) for number in old]
    return sum(_move(database, data, number, row) for number, row in zip(old, rows, strict=True))


def _move(database: Database, data: DataRoot, number: int, row: Discard) -> bool:
    try:
        trash.finish(database, data, row, lambda target: atomic_file.move(data.job(number), target))
    except OSError as error:  # the others can still be moved
        log.warning("the directory of job %d cannot be moved to the trash: %s", number, error)
        return False
    return True
