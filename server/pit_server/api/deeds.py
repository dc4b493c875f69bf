"""A deed: a change that somebody makes, written into the audit in the same transaction."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.api.context import address, head
from pit_server.api.policy import caller
from pit_server.services import audit, secrets
from pit_server.services.properties import Property

SECRETS = ("password", secrets.PREFIX)  # the latter with a host behind it


@contextmanager
def deed(act: str, thing: str, detail: str = "") -> Iterator[Session]:
    """A writing session; what the caller does in it is noted as `act` on `thing`."""
    try:
        with head().database.write() as session:
            yield session
            audit.note(session, caller().actor, act, thing, now=time.time(), detail=detail, address=address())
    except IntegrityError as error:
        raise Problem(
            "overtaken", f"{thing} was changed by someone else at this moment", "look again", status=409
        ) from error


def told(values: Sequence[tuple[Property, str, Any]]) -> str:
    """What was set, for the audit; of a secret only that it was."""
    return ", ".join(
        name if name.startswith(SECRETS) else f"{name}={_plain(value)}" for _, name, value in values
    )


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, tuple) else str(value if value is not None else "")
