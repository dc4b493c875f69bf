"""The scheduling thread: plan the queue, commit the placements that still hold, keep why the others wait."""

import time
from collections.abc import Mapping

from pit_server.db.database import Database
from pit_server.scheduler.plan import plan
from pit_server.scheduler.reason import Reason
from pit_server.services import scheduling_input
from pit_server.services.jobs.processes import plan_commit
from pit_server.settings import Settings
from pit_server.wakeups import STATUS, job_topic


class Scheduling:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._defaults = scheduling_input.default_needs(settings)
        self.reasons: Mapping[int, Reason] = {}  # why each waiting job waits, from the latest pass

    def __call__(self) -> None:
        with self._database.read() as session:
            given = scheduling_input.load(session, self._defaults)
        decided = plan(given.queue, given.free, given.idle)
        before, self.reasons = self.reasons, {**decided.reasons, **given.held}
        changed = [number for number, reason in self.reasons.items() if before.get(number) != reason]
        if changed:
            self._database.wakeups.notify([STATUS, *map(job_topic, changed)])
        if decided.placements:
            plan_commit.commit(self._database, decided, now=time.time())
