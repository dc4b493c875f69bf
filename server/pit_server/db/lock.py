"""Only one head runs on a database: a lock that is released when its holder dies."""

import fcntl
import os
import time
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from pit_protocol.problem import Problem

ADVISORY_KEY = 0x706974  # "pit"
TIMEOUT_S = 5.0  # the process of a killed head may live for a moment
POLL_S = 0.2


def hold(url: str) -> Any:
    """Take the lock, or raise a Problem; the lock is held as long as the returned object lives.

    Taken before the server forks: its processes inherit the lock, and the last one releases it.
    """
    sqlite_file = make_url(url).database if url.startswith("sqlite") else None
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        lock = _try_file(Path(sqlite_file)) if sqlite_file else _try_postgres(url)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            shown = sqlite_file or make_url(url).render_as_string(hide_password=True)
            raise Problem(
                "second_head", f"another head runs on {shown}", "stop it, or give this one its own home"
            )
        time.sleep(POLL_S)


def _try_file(database: Path) -> Any:
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
    return descriptor


def _try_postgres(url: str) -> Any:
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    connection = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()
    if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_KEY}).scalar():
        return connection
    connection.close()
    return None
