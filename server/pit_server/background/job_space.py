"""What the directories of a user's jobs use together; measured at intervals, as jobs write past the head."""

from collections import Counter
from typing import NamedTuple

from sqlalchemy import select

from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.database import Database
from pit_server.db.models import Job
from pit_server.services.files.free_space import render_size
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.files.disk_usage import measure

EVERY_S = 600.0
AT_ONCE = 500  # jobs of one query
GIB = 1024**3


class _Use(NamedTuple):
    user: int
    size: int
    is_final: bool  # the job has ended, and writes no more


class JobSpace:
    """`require` is called by requests, and everything else by one thread."""

    def __init__(self, database: Database, data: DataRoot, settings: Settings) -> None:
        self._database, self._data = database, data
        self._most = settings.user_jobs_gib * GIB
        self._known: dict[int, _Use] = {}
        self._totals: Counter[int] = Counter()  # by user

    def __call__(self) -> float | None:
        if not self._most:
            return None
        present = self._list_directories()
        self._known = {number: use for number, use in self._known.items() if number in present}
        changing = [n for n in present if n not in self._known or not self._known[n].is_final]
        for start in range(0, len(changing), AT_ONCE):
            self._measure(changing[start : start + AT_ONCE])
        self._add_up()
        return EVERY_S

    def require(self, user: int) -> None:
        """Raise a Problem if the jobs of this user have used up what they may."""
        if not self._most or self._totals[user] < self._most:
            return
        # Some may have been deleted since.
        mine = [(number, use.size) for number, use in list(self._known.items()) if use.user == user]
        used = sum(size for number, size in mine if self._data.job(number).is_dir())
        if used >= self._most:
            raise Problem(
                "jobs_over_quota",
                f"the directories of your jobs use {render_size(used)} of {render_size(self._most)}",
                "`pit show usage` shows how much each uses; `pit rm --purge N` deletes job N with its files",
                status=507,
            )

    def _list_directories(self) -> set[int]:
        return {int(path.name) for path in (self._data.root / "jobs").iterdir() if path.name.isdigit()}

    def _measure(self, numbers: list[int]) -> None:
        query = select(Job.id, Job.user_id, Job.state).where(Job.id.in_(numbers))
        with self._database.read() as session:
            found = session.execute(query).all()
        for row in found:
            size = measure(self._data.job(row.id))[0]
            self._known[row.id] = _Use(row.user_id, size, row.state == JobState.ENDED)

    def _add_up(self) -> None:
        totals: Counter[int] = Counter()
        for use in self._known.values():
            totals[use.user] += use.size
        self._totals = totals
