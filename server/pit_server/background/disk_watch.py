"""The disk of the data root: the job that fills it is ended before nothing is left for the head."""

import logging
import time

from sqlalchemy import select

from pit_protocol.arrays.numbers import job_name
from pit_protocol.states import JobState, KilledBy, Outcome
from pit_protocol.system.largest_writer import WriterWatch
from pit_server.db.database import Database
from pit_server.db.models import Job, User
from pit_server.services.files.free_space import render_size
from pit_server.services.files.quota import Quotas
from pit_server.services.jobs import lifecycle
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.files.disk_usage import measure

EVERY_S = 1.0  # a look costs microseconds as long as there is space
ENOUGH = 4 * 1024 * 1024  # free bytes with which the database can store an end
log = logging.getLogger(__name__)


class DiskWatch:
    """Ends one job at a time: another is chosen only when that one has ended."""

    def __init__(self, database: Database, data: DataRoot, quotas: Quotas, settings: Settings) -> None:
        self._database, self._data, self._quotas, self._settings = database, data, quotas, settings
        self._watch = WriterWatch[int]()
        self._sizes: dict[int, int] = {}
        self._ended: int | None = None

    def __call__(self) -> float:
        self._quotas.fill_reserve_file()
        free, total = self._quotas.free()
        end_below = int(total * self._settings.end_free_percent / 100)
        if end_below and not self._is_ending():
            number = self._watch.look(free, end_below, self._measure)
            if number is not None:
                self._end(number, free)
        return EVERY_S

    def _is_ending(self) -> bool:
        if self._ended is None:
            return False
        with self._database.read() as session:
            state = session.execute(select(Job.state).where(Job.id == self._ended)).scalar()
        return state == JobState.STOPPING

    def _measure(self) -> dict[int, int]:
        """What each running job has written: its directory and log, and the home of its user.

        The home counts for the youngest job of its user.
        """
        with self._database.read() as session:
            running = session.execute(
                select(Job.id, User.name)
                .join(User, User.id == Job.user_id)
                .where(Job.state == JobState.RUNNING, Job.array_size.is_(None))
                .order_by(Job.id)
            ).all()
        youngest = {row.name: row.id for row in running}
        self._sizes = {
            row.id: measure(self._data.job(row.id))[0] + measure(self._data.logs(row.id))[0]
            for row in running
        }
        homes = {number: measure(self._data.home(name))[0] for name, number in youngest.items()}
        return {number: size + homes.get(number, 0) for number, size in self._sizes.items()}

    def _end(self, number: int, free: int) -> None:
        used = render_size(self._sizes.get(number, 0))
        reason = f"the head's disk has {render_size(free)} left, and this job has written the most: {used}"
        if free < ENOUGH:
            # Only now, so that the job has no time to eat what is given up for its end.
            self._quotas.set_disk_full(True)
        try:
            with self._database.write() as session:
                job = lifecycle.lock(session, number)
                lifecycle.stop(
                    session, job, by=KilledBy.LIMIT, outcome=Outcome.FAILED, reason=reason, now=time.time()
                )
        except (lifecycle.IllegalMove, lifecycle.StaleState):
            return  # it has ended by itself
        self._ended = number
        log.error("job %s is ended: %s", job_name(number), reason)
