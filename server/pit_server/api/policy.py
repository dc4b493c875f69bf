"""Who may call a route. Every route says so; one that does not is closed to all."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from flask import current_app, g, request

from pit_protocol.problem import Problem
from pit_server.api.context import head
from pit_server.services import people
from pit_server.services.people import Caller

View = TypeVar("View", bound=Callable[..., object])
DEFAULT_LIMIT = 1024 * 1024  # bytes of a request's body


class Who(StrEnum):
    ANYONE = "anyone"
    USER = "user"
    NODE = "node"


def allow(who: Who, *, max_bytes: int = DEFAULT_LIMIT) -> Callable[[View], View]:
    """Declare who may call the view, and how large the body may be."""

    def mark(view: View) -> View:
        view.who = who  # type: ignore[attr-defined]
        view.max_bytes = max_bytes  # type: ignore[attr-defined]
        return view

    return mark


def admit() -> None:
    """Run before every request: let in who may, refuse everyone else."""
    if request.endpoint is None:
        return  # no such route: Flask says so
    view = current_app.view_functions[request.endpoint]
    who: Who | None = getattr(view, "who", None)
    if who is None:
        raise Problem("closed", "this route is closed", status=403)
    request.max_content_length = getattr(view, "max_bytes", DEFAULT_LIMIT)
    arguments = request.args.items(multi=True)
    if any("token" in name.lower() or people.TOKEN.search(value) for name, value in arguments):
        raise Problem(
            "token_in_url", "a token does not belong into a URL, where it would be logged", status=400
        )
    if who is Who.ANYONE:
        return
    g.caller = _caller()
    if (who is Who.USER) != (g.caller.user_id is not None):
        raise Problem("wrong_kind_of_token", f"this route is for a {who}'s token", status=403)


def caller() -> Caller:
    """Who the current request comes from."""
    found: Caller = g.caller
    return found


def _caller() -> Caller:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem("no_token", "this needs a token", "`pit connect URL` stores one", status=401)
    now = time.time()
    with head().database.read() as session:
        found, stale_id = people.find_caller(session, token.strip(), now=now)
    if stale_id is not None:
        with head().database.write() as session:
            people.note_use(session, stale_id, now=now)
    return found
