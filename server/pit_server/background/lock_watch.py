"""The watch over the head's lock: a head that has lost it must not go on serving beside another.

A PostgreSQL server that restarts drops the lock. Writes are fenced by the generation anyway; this ends the
head also if it only reads.
"""

from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from pit_server.db import generation
from pit_server.db.database import Database
from pit_server.db.lock import Lock

CHECK_S = 5.0


class LockWatch:
    def __init__(self, database: Database, lock: Lock, on_lost: Callable[[str], None]) -> None:
        self._database, self._lock, self._on_lost = database, lock, on_lost

    def __call__(self) -> float:
        try:
            if not self._lock.is_held(self._database.engine):
                self._on_lost("this head has lost its lock on the database")
            with self._database.read() as session:
                number = self._database.generation
                if number is not None and not generation.is_current(session, number):
                    self._on_lost(generation.DEPOSED.message)
        except DBAPIError:
            pass  # not reachable now; the next check finds out whether its server was restarted
        return CHECK_S
