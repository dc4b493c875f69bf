"""Sessions on SQLite or PostgreSQL, with the same promises on both.

`write()` commits or rolls back as a whole, and rings its bells only after the commit. On SQLite
writers queue on one lock and begin IMMEDIATE, so that none of them ever reads what another is
about to change; on PostgreSQL rows are locked (`with_for_update`) where that matters.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine, Row, create_engine, event, insert, update
from sqlalchemy.orm import Session

from pit_server.bells import Bells, node_bell
from pit_server.db.models import Event, Node

BUSY_TIMEOUT_MS = 10_000
WRITES = "pit_writes"

AnyRow = Row[*tuple[Any, ...]]  # a row loaded as columns


class Database:
    def __init__(self, url: str, bells: Bells) -> None:
        self.bells = bells
        self.is_sqlite = url.startswith("sqlite")
        self.engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)
        self._writing = self.engine.execution_options(**{WRITES: True})
        # A reader must see one moment: on PostgreSQL that needs REPEATABLE READ.
        self._reading = (
            self.engine
            if self.is_sqlite
            else self.engine.execution_options(isolation_level="REPEATABLE READ")
        )
        self._writers: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one moment and changes nothing."""
        with Session(self._reading) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits at the end; slow work has no place in it."""
        with self._writers, Session(self._writing, expire_on_commit=False, autoflush=False) as session:
            yield session
            if events := session.info.get("events"):
                session.execute(insert(Event), events)
            nodes = sorted(session.info.get("nodes", ()))
            # Last and in order, so that two writers can not wait for each other's rows.
            for node_id in nodes:
                session.execute(update(Node).where(Node.id == node_id).values(revision=Node.revision + 1))
            session.commit()
        self.bells.ring({*session.info.get("bells", ()), *map(node_bell, nodes)})

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """A bare connection in one writing transaction, for migrations."""
        with self._writers, self._writing.begin() as connection:
            yield connection

    def dispose(self) -> None:
        self.engine.dispose()


def ring_after_commit(session: Session, *names: str) -> None:
    session.info.setdefault("bells", set()).update(names)


def note_event(session: Session, **columns: Any) -> None:
    """Have an event written with this transaction; all of them go in one statement at its end."""
    session.info.setdefault("events", []).append({"process_id": None, "reason": "", **columns})


def change_orders(session: Session, node_id: int) -> None:
    """Mark that what this node is told has changed: its held beat is answered after the commit."""
    session.info.setdefault("nodes", set()).add(node_id)


def _sqlite_engine(url: str) -> Engine:
    engine = create_engine(url, pool_size=32, max_overflow=256, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            f"busy_timeout={BUSY_TIMEOUT_MS}",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres_engine(url: str) -> Engine:
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    return create_engine(url, pool_size=32, max_overflow=64, pool_pre_ping=True)
