"""The data garbage collector: once a day, move old job directories to the trash, and empty the trash."""

import logging
import time
from contextlib import suppress
from pathlib import Path

from pit_protocol.durations import DAY_S
from pit_protocol.system import tree_delete
from pit_protocol.system.retention_clock import RetentionClock
from pit_server.db.database import Database
from pit_server.services import history
from pit_server.services.files import trash
from pit_server.services.files.quota import Quotas
from pit_server.services.jobs import expiry
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.files import upload_parts
from pit_server.store.files.domain_files import is_part, is_temporary
from pit_server.store.files.tree_walk import walk

log = logging.getLogger(__name__)


class DataGc:
    def __init__(
        self, database: Database, data: DataRoot, quotas: Quotas, settings: Settings, clock: RetentionClock
    ) -> None:
        self._database, self._data, self._quotas, self._settings = database, data, quotas, settings
        self._clock = clock
        self._begun_at = time.time()

    def __call__(self) -> float:
        now = self._clock.now()
        self._quotas.fill_reserve_file()
        if self._settings.job_days:
            old = expiry.discard_old(self._database, self._data, self._settings.job_days, now=now)
            if old:
                log.info("moved the directories of %d jobs to the trash", old)
        self._forget_history(now)
        if self._settings.trash_days:
            with self._database.write() as session:
                trash.purge_old(session, self._settings.trash_days, now=now)
            for place in _orphans(self._data.trash, self._settings.trash_days, now):
                tree_delete.delete(place)
        for domains in (self._data.root / name for name in ("home", "groups", "jobs", "shared")):
            self._sweep_parts(domains, now - DAY_S)
        return DAY_S

    def _forget_history(self, now: float) -> None:
        """Keep ended jobs and the audit within their limits."""
        settings = self._settings
        while settings.history_jobs:
            with self._database.write() as session:
                old = history.discard_excess_jobs(session, settings.history_jobs, now=time.time())
            if not old:
                break
            log.info(
                "moved %d old jobs to the trash: their users have more than %d", old, settings.history_jobs
            )
        with self._database.write() as session:
            if old := history.prune_audit(session, settings.audit_days, settings.audit_rows, now=now):
                log.info("deleted %d old rows of the audit", old)

    def _sweep_parts(self, directory: Path, before: float) -> None:
        """Delete abandoned parts of uploads, without following links.

        Parts that cannot be resumed are deleted as soon as the head has restarted.
        """
        for visit in walk(directory):
            for name in [name for name, _ in visit.entries if is_part(name)]:
                with suppress(OSError):  # completed meanwhile, or not owned by the head
                    oldest = self._begun_at if is_temporary(name) else before
                    if upload_parts.sweep(visit.directory, name, oldest):
                        place = Path(directory, *visit.parts, name)
                        log.info("deleted %s, an upload that was never completed", place)


def _orphans(directory: Path, days: int, now: float) -> list[Path]:
    """Old trash without a record: directories that older versions left.

    Their names end with the time of the removal, in nanoseconds.
    """
    found = []
    for path in directory.iterdir():
        last = path.name.rpartition("-")[2]
        if last.isdecimal() and len(last) > 15 and int(last) / 1e9 < now - days * DAY_S:
            found.append(path)
    return found
