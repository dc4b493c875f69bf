"""The housekeeping duty: once a day, what is old goes to the trash, and from there for good."""

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from pit_server.db.database import Database
from pit_server.services import aging, trash
from pit_server.services.room import Room
from pit_server.services.tokens import DAY_S
from pit_server.settings import Settings
from pit_server.store import parts
from pit_server.store.beneath import is_brief, is_part
from pit_server.store.paths import DataRoot

log = logging.getLogger(__name__)


class Housekeeping:
    def __init__(self, database: Database, data: DataRoot, room: Room, settings: Settings) -> None:
        self._database, self._data, self._room, self._settings = database, data, room, settings
        self._begun_at = time.time()

    def __call__(self) -> float:
        now = time.time()
        self._room.keep_reserve()
        if self._settings.job_days:
            with self._database.write() as session:
                old = aging.discard_old(session, self._data, self._settings.job_days, now=now)
            if old:
                log.info("directories of %d jobs went to the trash", len(old))
        if self._settings.trash_days:
            with self._database.write() as session:
                places = trash.sweep(session, self._data, self._settings.trash_days, now=now)
            for place in (*places, *_orphans(self._data.trash, self._settings.trash_days, now)):
                trash.delete(place)
        for domains in (self._data.root / name for name in ("home", "groups", "jobs", "shared")):
            self._sweep_parts(domains, now - DAY_S)
        return DAY_S

    def _sweep_parts(self, directory: Path, before: float) -> None:
        """Delete what was begun to be sent, and not gone on with; past no link.

        What nobody can go on with goes as soon as there is a new head.
        """
        for place, directories, files, descriptor in os.fwalk(directory, follow_symlinks=False):
            # A link to a directory is among those, and may be a part as any file.
            for name in filter(is_part, (*files, *directories)):
                with suppress(OSError):  # completed just now, or not the head's
                    if parts.sweep(descriptor, name, self._begun_at if is_brief(name) else before):
                        log.info("%s was never completed", Path(place, name))


def _orphans(directory: Path, days: int, now: float) -> list[Path]:
    """What lies in the trash without a record: directories of users, groups and jobs that were removed.

    The last part of such a name is the time it came there, in nanoseconds.
    """
    found = []
    for path in directory.iterdir():
        last = path.name.rpartition("-")[2]
        if last.isdecimal() and len(last) > 15 and int(last) / 1e9 < now - days * DAY_S:
            found.append(path)
    return found
