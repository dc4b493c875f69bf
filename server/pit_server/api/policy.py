"""Who may call a route. Every route says so; one that does not is closed to all."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from flask import current_app, g, request

from pit_protocol.problem import Problem
from pit_server.api.context import head
from pit_server.services import tokens
from pit_server.services.inputs import storable
from pit_server.services.tokens import Caller

View = TypeVar("View", bound=Callable[..., object])
DEFAULT_LIMIT = 1024 * 1024  # bytes of a request's body


class Who(StrEnum):
    ANYONE = "anyone"
    USER = "user"
    ADMIN = "admin"
    NODE = "node"
    JOIN = "join"  # a machine with the code that makes it a node
    JOB = "job"  # a running one: it has its user's data by WebDAV, and nothing here


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
    given = (*(request.view_args or {}).values(), *request.args.values())
    if any(isinstance(value, str) and value != storable(value) for value in given):
        raise Problem("bad_text", "a URL with a NUL character or half a character names nothing", status=404)
    arguments = request.args.items(multi=True)
    if any("token" in name.lower() or tokens.TOKEN.search(value) for name, value in arguments):
        raise Problem(
            "token_in_url", "a token does not belong into a URL, where it would be logged", status=400
        )
    if who is Who.ANYONE:
        return
    g.readmit = lambda: _let_in(who)
    g.readmit()


def _let_in(who: Who) -> None:
    """Also called again while a request is held: a token that ended meanwhile gets nothing any more."""
    g.caller = _caller()
    wanted = Who.USER if who is Who.ADMIN else who
    if _kind(g.caller) is not wanted:
        raise Problem("wrong_kind_of_token", f"this route is for a {wanted}'s token", status=403)
    if who is Who.ADMIN and not g.caller.is_admin:
        raise Problem("not_allowed", "only admins may do this", "ask one of them", status=403)


def _kind(found: Caller) -> Who:
    if found.attempt_id is not None:
        return Who.JOB
    if found.user_id is not None:
        return Who.USER
    return Who.JOIN if found.joins else Who.NODE


def caller() -> Caller:
    """Who the current request comes from."""
    found: Caller = g.caller
    return found


def _caller() -> Caller:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem("no_token", "this needs a token", "`pit login` gets one", status=401)
    now = time.time()
    with head().database.read() as session:
        found, is_stale = tokens.find_caller(session, token.strip(), now=now)
    if is_stale:
        with head().database.write() as session:
            tokens.note_use(session, found.token_id, now=now)
    return found
