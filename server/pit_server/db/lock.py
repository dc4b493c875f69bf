"""Only one head runs on a database: a lock that is released when its holder dies."""

import fcntl
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from pit_protocol.problem import Problem
from pit_server.db.database import open_postgres

ADVISORY_KEY = 0x706974  # "pit"
TIMEOUT_S = 5.0  # the process of a killed head may live for a moment
POLL_S = 0.2
# By the server's own record, because a connection that broke unnoticed still looks open from here.
HOLDS = text(
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = :key AND objsubid = 1"
    " AND pid = :pid AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class Lock(ABC):
    """A lock that is held; until it is closed, or the process ends with all that it has forked."""

    @abstractmethod
    def is_held(self, engine: Engine) -> bool:
        """Whether it still is, as far as others can see."""

    @abstractmethod
    def close(self) -> None: ...


class FileLock(Lock):
    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def is_held(self, engine: Engine) -> bool:  # noqa: ARG002
        """Whether another head would find this same file."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        os.close(self._descriptor)


class PostgresLock(Lock):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    def is_held(self, engine: Engine) -> bool:
        with engine.connect() as connection:
            given = {"key": ADVISORY_KEY, "pid": self._pid}
            return connection.execute(HOLDS, given).first() is not None

    def close(self) -> None:
        self._connection.close()


def hold(url: str) -> Lock:
    """Take the lock, or raise a Problem.

    Taken before the server forks: its processes inherit the lock, and the last one releases it.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        lock = try_hold(url)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            raise Problem(
                "second_head", f"another head runs on {_show(url)}", "stop it, or give this one its own home"
            )
        time.sleep(POLL_S)


def try_hold(url: str) -> Lock | None:
    """Take the lock; None if another process has it."""
    sqlite_file = make_url(url).database if url.startswith("sqlite") else None
    return _try_file(Path(sqlite_file)) if sqlite_file else _try_postgres(url)


def _show(url: str) -> str:
    """The database, without its password."""
    return (url.startswith("sqlite") and make_url(url).database) or make_url(url).render_as_string(
        hide_password=True
    )


def _try_file(database: Path) -> Lock | None:
    # Of the real file, because a link leads to the same database.
    path = Path(f"{database.resolve()}.lock")
    try:
        # flock belongs to the open file, so forked processes share it.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Problem("no_database", f"{path} cannot be written: {(error.strerror or '').lower()}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return FileLock(path, descriptor)


def _try_postgres(url: str) -> Lock | None:
    try:
        connection = open_postgres(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()
    except OperationalError as error:
        why = str(error.orig).strip().splitlines()[-1]
        raise Problem(
            "no_database", f"{_show(url)} does not answer: {why}", "is PostgreSQL up?", status=503
        ) from error
    if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_KEY}).scalar():
        return PostgresLock(connection)
    connection.close()
    return None
