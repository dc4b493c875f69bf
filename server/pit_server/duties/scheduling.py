"""The scheduling duty: plan over the queue, commit what still holds, remember why the others wait."""

import time
from collections.abc import Mapping
from functools import lru_cache

from sqlalchemy import select

from pit_grammar import parse
from pit_protocol.states import JobState
from pit_server.db.database import Database
from pit_server.db.models import Job
from pit_server.scheduler.plan import Reason, Waiting, plan
from pit_server.services import node_views, placement
from pit_server.services.access import Keeping
from pit_server.services.aliases import Names

_parse = lru_cache(maxsize=4096)(parse)


class Scheduling:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.reasons: Mapping[int, Reason] = {}  # why each waiting job waits, from the newest pass

    def __call__(self) -> None:
        with self._database.read() as session:
            rows = session.execute(
                select(Job.id, Job.request, Job.user_id, Job.image)
                .where(Job.state == JobState.WAITING)
                .order_by(Job.id)
            ).all()
            views = node_views.views(session) if rows else []
            idle = node_views.views(session, idle=True) if rows else []
            meanings, keeping = Names(session).meanings(), Keeping(session)
            meant = {text: _parse(text).renamed(meanings) for text in {row.request for row in rows}}
            queue = [
                Waiting(
                    row.id,
                    meant[row.request],
                    keeping.access_of(row.user_id, needs_container=row.image is not None),
                )
                for row in rows
            ]
        decided = plan(queue, views, idle)
        self.reasons = decided.reasons
        if decided.placements:
            placement.commit(self._database, decided, now=time.time())
