"""The watch over the head's lock: a head that has lost it must not go on serving beside another.

A PostgreSQL server that restarts drops the lock. The head takes it again, and goes on if nobody has begun
meanwhile. Writes are fenced by the generation anyway; this ends a head that only reads, too.
"""

import logging
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from pit_protocol.problem import Problem
from pit_server.db import generation, lock
from pit_server.db.database import Database
from pit_server.db.lock import Lock

CHECK_S = 5.0

log = logging.getLogger(__name__)


class LockWatch:
    def __init__(self, database: Database, url: str, held: Lock, on_lost: Callable[[str], None]) -> None:
        self._database, self._url, self._held, self._on_lost = database, url, held, on_lost

    def __call__(self) -> float:
        try:
            if not self._held.is_held(self._database.engine):
                self._take_again()
            with self._database.read() as session:
                number = self._database.generation
                if number is not None and not generation.is_current(session, number):
                    self._on_lost(generation.DEPOSED.message)
        except DBAPIError:
            pass  # not reachable now; the next check finds out whether its server was restarted
        return CHECK_S

    def _take_again(self) -> None:
        try:
            taken = lock.try_hold(self._url)
        except Problem:
            return  # not reachable again
        if taken is None:
            self._on_lost("another head has the lock on this head's database")
        else:
            log.warning("the database had dropped the lock of this head, which has taken it again")
            self._held = taken
