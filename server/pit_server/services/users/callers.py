"""Who sent a request, by its token. A busy client's token is read once a second, not with every request."""

import threading
import time
from typing import NamedTuple

from pit_server.db.database import Database
from pit_server.services.users import tokens
from pit_server.services.users.tokens import Caller

# A change through the head counts at once; this is for changes by a command at the head's console.
MAX_AGE_S = 1.0
MAX_KNOWN = 10_000


class _Known(NamedTuple):
    caller: Caller
    revision: int
    read_at: float


class Callers:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}  # by the token's text; refused ones are never in here

    def find(self, text: str, *, now: float) -> Caller:
        """The holder of this token; a Problem if there is none."""
        known = self._known.get(text)
        if known and self._is_valid(known, now):
            return known.caller
        # Before reading: a change in between makes what is read invalid.
        revision, read_at = self._database.wakeups.access_revision, time.monotonic()
        with self._database.read() as session:
            caller, is_stale = tokens.find_caller(session, text, now=now)
        if is_stale:
            with self._database.write() as session:
                tokens.note_use(session, caller.token_id, now=now)
        # A job's token ends with its last process, and a join code with its first use.
        if caller.attempt_id is None and not caller.joins:
            self._keep(text, _Known(caller, revision, read_at))
        return caller

    def _is_valid(self, known: _Known, now: float) -> bool:
        return (
            known.revision == self._database.wakeups.access_revision
            and time.monotonic() - known.read_at < MAX_AGE_S
            and (known.caller.expires_at is None or now < known.caller.expires_at)
        )

    def _keep(self, text: str, known: _Known) -> None:
        with self._lock:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[text] = known
