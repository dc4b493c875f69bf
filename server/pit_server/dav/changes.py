"""Helpers for requests that change files: moves to the trash, times, existing directories."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.context import Head
from pit_server.dav.urls import CALLER, Environ
from pit_server.services import audit
from pit_server.services.files import trash
from pit_server.services.files.domains import Place
from pit_server.services.users.tokens import Caller


def discard(environ: Environ, place: Place, below: str) -> None:
    """Move something to the trash and write the audit, as the API does."""
    head: Head = environ["wsgidav.provider"].head
    caller: Caller = environ[CALLER]
    now, shown = time.time(), below.encode(errors="backslashreplace").decode()
    address = environ.get("REMOTE_ADDR", "")

    @contextmanager
    def write() -> Iterator[Session]:
        with head.database.write() as session:
            yield session
            audit.note(
                session, caller.actor, "remove files", place.name, now=now, detail=shown, address=address
            )

    most = head.settings.trash_entries
    trash.discard(write, head.database, head.data, place, below, caller.name, now=now, most=most)
    head.quotas.forget(place.name)


@contextmanager
def suppress_exists() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        if problem.code != "exists":
            raise


def read_time(stamp: Any) -> float:
    """Parse seconds since 1970 or an HTTP date."""
    try:
        text = str(stamp)
        return float(text) if text.isascii() and text.isdecimal() else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        raise Problem("bad_time", f"{str(stamp)[:40]!r} is not a time", status=400) from None
