"""Only one head decides on one database: a lock that dies with its holder."""

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
PATIENCE_S = 5.0  # a head that was killed leaves a process behind for a moment
LOOK_AGAIN_S = 0.2


def hold(url: str) -> Any:
    """Take the lock, or raise a Problem; keep what it returns, for the lock lives as long.

    Taken before the server forks: its processes inherit the lock, and the last one releases it.
    """
    sqlite_file = make_url(url).database if url.startswith("sqlite") else None
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lock = _try_file(Path(sqlite_file)) if sqlite_file else _try_postgres(url)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            shown = sqlite_file or make_url(url).render_as_string(hide_password=True)
            raise Problem(
                "second_head", f"another head runs on {shown}", "stop it, or give this one its own home"
            )
        time.sleep(LOOK_AGAIN_S)


def _try_file(database: Path) -> Any:
    # The real file's, for a link leads to the same books.
    place = Path(f"{database.resolve()}.lock")
    try:
        # flock, for it belongs to the open file and so is shared with what we fork.
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Problem(
            "no_database", f"{place} cannot be written: {(error.strerror or '').lower()}"
        ) from error
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
