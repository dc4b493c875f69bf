"""Changes that are written to the audit in the same transaction."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pit_protocol.notifications import PREFIX as CHANNEL_PREFIX
from pit_protocol.problem import Problem
from pit_server.api.http.context import address, head
from pit_server.api.http.guard import caller
from pit_server.db.database import notify_after_commit
from pit_server.services import audit
from pit_server.services.properties import Property
from pit_server.services.users import secrets
from pit_server.wakeups import ACCESS

SECRETS = ("password", secrets.PREFIX, CHANNEL_PREFIX)  # prefixes are followed by a host or a channel


@contextmanager
def audited(action: str, thing: str, detail: str = "") -> Iterator[Session]:
    """Open a writing session and record in the audit that the caller did `action` to `thing`."""
    try:
        with head().database.write() as session:
            yield session
            notify_after_commit(session, ACCESS)  # few of them change it, but none is frequent
            audit.note(
                session, caller().actor, action, thing, now=time.time(), detail=detail, address=address()
            )
    except IntegrityError as error:
        raise Problem(
            "overtaken", f"{thing} was changed by someone else at this moment", "look again", status=409
        ) from error


def describe_values(values: Sequence[tuple[Property, str, Any]]) -> str:
    """Render the values that were set, for the audit; a secret is named without its value."""
    return ", ".join(
        name if name.startswith(SECRETS) else f"{name}={_plain(value)}" for _, name, value in values
    )


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, tuple) else str(value if value is not None else "")
