"""What was read from tables that seldom change, kept until one of them does.

A writer announces a table before its first change to it. From then until its transaction has ended, nothing
that depends on the table is kept or taken from here: who gets a lock after the writer sees its changes.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session, UOWTransaction

from pit_server.db.models import Base

T = TypeVar("T")
# For changes by a command at the head's console, of which the head is not told.
MAX_AGE_S = 0.25
MEMO, CHANGED = "memo", "changed_tables"  # in the info of a session

Tables = tuple[type[Base], ...]


class _Known(NamedTuple):
    value: Any
    revision: int
    read_at: float


class Memo:
    def __init__(self, read: Callable[[Callable[[Session], Any]], Any]) -> None:
        """`read` calls a function with a new session of the same database."""
        self._read = read
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()  # tables that transactions are about to change
        self._revisions: Counter[str] = Counter()
        self._known: dict[Hashable, _Known] = {}

    def announce(self, table: str) -> None:
        with self._lock:
            self._open[table] += 1
            self._revisions[table] += 1

    def finish(self, tables: Collection[str]) -> None:
        """The transaction that announced them has ended."""
        with self._lock:
            self._open.subtract(tables)
            self._revisions.update(tables)

    def get(self, name: Hashable, tables: Tables, read: Callable[[Session], T]) -> T:
        revision = self._revision(tables)
        known = self._known.get(name)
        now = time.monotonic()
        if revision is not None and known and known.revision == revision and now - known.read_at < MAX_AGE_S:
            value: T = known.value
            return value
        value = self._read(read)
        if revision is not None:
            self._known[name] = _Known(value, revision, now)
        return value

    def _revision(self, tables: Tables) -> int | None:
        """How often these tables have changed; None: one of them is being changed."""
        with self._lock:
            if any(self._open[table.__tablename__] for table in tables):
                return None
            return sum(self._revisions[table.__tablename__] for table in tables)


def remembered(session: Session, name: Hashable, tables: Tables, read: Callable[[Session], T]) -> T:
    """What `read` returns, from memory if these tables, which are all that it reads, have not changed since.

    It must be a value: no rows that belong to a session, and nothing that a caller changes.
    """
    memo: Memo | None = session.info.get(MEMO)
    changed = session.info.get(CHANGED, ())
    if memo is None or any(table.__tablename__ in changed for table in tables):
        return read(session)
    return memo.get(name, tables, read)


class WritingSession(Session):
    """A session that announces which tables it changes."""


def _note(session: Session, table: str) -> None:
    changed: set[str] = session.info.setdefault(CHANGED, set())
    if table not in changed:
        changed.add(table)
        session.info[MEMO].announce(table)


@event.listens_for(WritingSession, "do_orm_execute")
def _note_statement(state: ORMExecuteState) -> None:
    if not state.is_select and (table := getattr(state.statement, "table", None)) is not None:
        _note(state.session, table.name)


@event.listens_for(WritingSession, "before_flush")
def _note_flush(session: Session, _: UOWTransaction, _instances: Any) -> None:
    for row in (*session.new, *session.dirty, *session.deleted):
        _note(session, row.__tablename__)
