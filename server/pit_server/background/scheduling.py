"""The scheduling thread: plan the queue, commit the placements that still hold, keep why the others wait."""

import time
from collections.abc import Mapping

from pit_server.db.database import Database
from pit_server.scheduler.plan import Reason, plan
from pit_server.services import scheduling_input
from pit_server.services.jobs import plan_commit


class Scheduling:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.reasons: Mapping[int, Reason] = {}  # why each waiting job waits, from the latest pass

    def __call__(self) -> None:
        with self._database.read() as session:
            given = scheduling_input.load(session)
        decided = plan(given.queue, given.free, given.idle)
        self.reasons = decided.reasons
        if decided.placements:
            plan_commit.commit(self._database, decided, now=time.time())
