"""Sessions on SQLite or PostgreSQL, with the same guarantees on both.

`write()` commits or rolls back as a whole, and notifies waiters only after the commit. On SQLite
writers queue on one lock and begin IMMEDIATE, so that none reads what another is about to change;
on PostgreSQL rows are locked (`with_for_update`) where that matters. Writes of a head are fenced by
its generation.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Row, create_engine, event, insert, select, update
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server import metrics
from pit_server.db import generation, sequences
from pit_server.db.memo import CHANGED, MEMO, Memo, WritingSession
from pit_server.db.models import Base, Event, Node
from pit_server.wakeups import Wakeups, node_topic

BUSY_TIMEOUT_MS = 10_000
WRITES = "pit_writes"

_NO_FACTS = {"process_id": None, "from_state": None, "reason": ""}  # of an event that says nothing of them

AnyRow = Row[*tuple[Any, ...]]  # a row loaded as columns


class Marks(Protocol):
    """Where numbers are recorded that must never be handed out again, whatever happens to the database."""

    def reserve(self, numbers: Mapping[str, int]) -> None:
        """Before the commit."""

    def note(self, numbers: Mapping[str, int]) -> None:
        """After the commit."""

    def close(self) -> None:
        """When no more numbers will be handed out."""


class Database:
    def __init__(self, url: str, wakeups: Wakeups) -> None:
        self.wakeups = wakeups
        self.marks: Marks | None = None
        self.generation: int | None = None  # of the head that writes; None: a command at the console
        self.on_deposed: Callable[[], None] = lambda: None  # another head has begun
        self.is_sqlite = url.startswith("sqlite")
        self.engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)
        self._writing = self.engine.execution_options(**{WRITES: True})
        # A reader must see one snapshot: on PostgreSQL that needs REPEATABLE READ.
        self._reading = (
            self.engine
            if self.is_sqlite
            else self.engine.execution_options(isolation_level="REPEATABLE READ")
        )
        self._memo = Memo(self._read_once)
        self._writers: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one snapshot and changes nothing."""
        with metrics.READ.time(), Session(self._reading, info={MEMO: self._memo}) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits at the end; do no slow work in it."""
        begun = perf_counter()
        with self._writers, self._open_to_write() as session:
            metrics.WAIT.observe(perf_counter() - begun)
            yield session
            if events := session.info.get("events"):
                insert_all(session, Event, events)
            nodes = sorted(session.info.get("nodes", ()))
            if nodes:
                self._count_revisions(session, nodes)
            self._commit(session)
        self.wakeups.notify({*session.info.get("topics", ()), *map(node_topic, nodes)})
        metrics.WRITE.observe(perf_counter() - begun)
        for observe, value in session.info.get("measured", ()):
            observe(value)

    @contextmanager
    def _open_to_write(self) -> Iterator[Session]:
        session = WritingSession(self._writing, expire_on_commit=False, autoflush=False)
        session.info[MEMO] = self._memo
        try:
            with session:
                yield session
        finally:
            self._memo.finish(session.info.get(CHANGED, ()))

    def _read_once(self, read: Callable[[Session], Any]) -> Any:
        with self.read() as session:
            return read(session)

    def _count_revisions(self, session: Session, nodes: Sequence[int]) -> None:
        """Last and in order, so that two writers cannot deadlock on each other's rows."""
        mine = Node.id.in_(nodes)
        if len(nodes) > 1 and not self.is_sqlite:
            session.execute(select(Node.id).where(mine).order_by(Node.id).with_for_update())
        # Past the session: of all that is known of nodes, this alone changes all the time.
        session.connection().execute(update(Node).where(mine).values(revision=Node.revision + 1))

    def _commit(self, session: Session) -> None:
        """Commit if no later head has begun; numbers that it hands out are recorded around it."""
        session.flush()
        numbers = session.info.get(sequences.NEW) if self.marks else None
        if self.marks and numbers:
            self.marks.reserve(sequences.only_naming(numbers))
        if self.generation is not None:
            try:
                generation.check(session, self.generation)
            except Problem:
                self.on_deposed()
                raise
        session.commit()
        if self.marks and numbers:
            self.marks.note(numbers)

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """A bare connection in one writing transaction, for migrations."""
        with self._writers, self._writing.begin() as connection:
            yield connection

    def dispose(self) -> None:
        self.engine.dispose()


def notify_after_commit(session: Session, *topics: str) -> None:
    session.info.setdefault("topics", set()).update(topics)


def measure_after_commit(session: Session, observe: Callable[[float], object], value: float) -> None:
    """Let a metric know of a value, if this transaction is committed."""
    session.info.setdefault("measured", []).append((observe, value))


def note_event(session: Session, **columns: Any) -> None:
    """Write an event with this transaction; all of them go in one statement at its end."""
    session.info.setdefault("events", []).append({**_NO_FACTS, **columns})


def insert_all(session: Session, table: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, which have the same columns, by one statement; nothing is loaded."""
    session.connection().execute(insert(table), rows)


def change_orders(session: Session, node_id: int) -> None:
    """Mark that the node's orders have changed; its pending beat is answered after the commit."""
    session.info.setdefault("nodes", set()).add(node_id)


def _sqlite_engine(url: str) -> Engine:
    engine = create_engine(url, pool_size=32, max_overflow=256, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # `begin` below sends BEGIN itself
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
    return open_postgres(url, pool_size=32, max_overflow=64, pool_pre_ping=True)


def open_postgres(url: str, **options: Any) -> Engine:
    """An engine that refuses databases in which not every text can be stored."""
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    engine = create_engine(url, **options)

    @event.listens_for(engine, "first_connect")
    def check(connection: Any, _record: Any) -> None:
        name, encoding = connection.info.dbname, connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            raise Problem(
                "bad_database",
                f"the PostgreSQL database {name} has the encoding {encoding}, not UTF8",
                f"`createdb -E UTF8 -T template0 {name}` makes one that fits",
            )

    return engine
