"""Which role may call a route. Every route declares it; a route that does not is closed to everyone."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, ParamSpec

from flask import current_app, g, request

from pit_protocol.problem import Problem
from pit_server.api.http import session_cookie
from pit_server.api.http.context import head
from pit_server.services.users import tokens
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import storable
from pit_server.traffic import Traffic, find_kind

P = ParamSpec("P")
AT_END = "pit.at_end"  # in a request's environ: to be called when its response has been sent
DEFAULT_LIMIT = 1024 * 1024  # bytes of a request's body


class Role(StrEnum):
    ANYONE = "anyone"
    USER = "user"
    ADMIN = "admin"
    NODE = "node"
    SITE = "site"  # the agent of a site
    JOIN = "join"  # a machine with a join code
    JOB = "job"  # a running job: it reaches its user's data by WebDAV, and no route here


def allow(
    role: Role, *, max_bytes: int = DEFAULT_LIMIT, traffic: Traffic = Traffic.SHORT
) -> Callable[[Callable[P, object]], Callable[P, Any]]:
    """Declare which role may call the view, how large the body may be, and which threads handle it.

    For the type checker the view then returns anything: Flask's own types know of no Structs.
    """

    def mark(view: Callable[P, object]) -> Callable[P, Any]:
        view.role = role  # type: ignore[attr-defined]
        view.max_bytes = max_bytes  # type: ignore[attr-defined]
        view.traffic = traffic  # type: ignore[attr-defined]
        return view

    return mark


def check_access() -> None:
    """Run before every request; raise a Problem unless the caller may call the route."""
    if request.endpoint is None:
        return  # no such route: Flask answers 404
    view = current_app.view_functions[request.endpoint]
    role: Role | None = getattr(view, "role", None)
    if role is None:
        raise Problem("closed", "this route is closed", status=403)
    request.max_content_length = getattr(view, "max_bytes", DEFAULT_LIMIT)
    given = (*(request.view_args or {}).values(), *request.args.values())
    if any(isinstance(value, str) and value != storable(value) for value in given):
        raise Problem("bad_text", "a URL must not contain a NUL or an invalid character", status=404)
    arguments = request.args.items(multi=True)
    if any("token" in name.lower() or tokens.TOKEN.search(value) for name, value in arguments):
        raise Problem("token_in_url", "a token must not be in a URL, where it would be logged", status=400)
    if role is Role.ANYONE:
        return
    g.recheck_access = lambda: _authorize(role)
    g.recheck_access()
    if (user_id := g.caller.user_id) is not None:
        declared: Traffic = getattr(view, "traffic", Traffic.SHORT)
        traffic = find_kind(declared, waits="wait_s" in request.args)
        request.environ[AT_END] = head().request_limits.begin(user_id, traffic)


def end_request(_error: BaseException | None) -> None:
    """The view is done. A file may still be on its way, so under gunicorn its hook ends the request."""
    if "gunicorn.socket" not in request.environ:
        release_request(request.environ)


def release_request(environ: dict[str, Any]) -> None:
    """The response has been sent, or never will be."""
    if end := environ.pop(AT_END, None):
        end()


def _authorize(role: Role) -> None:
    """Find the caller and check their role; repeated during a long poll, as a token can be revoked."""
    g.caller = _caller()
    wanted = Role.USER if role is Role.ADMIN else role
    if _role(g.caller) is not wanted:
        raise Problem("wrong_kind_of_token", f"this route is for a {wanted}'s token", status=403)
    if role is Role.ADMIN and not g.caller.is_admin:
        raise Problem("not_allowed", "only admins may do this", "ask one of them", status=403)


def _role(found: Caller) -> Role:
    if found.attempt_id is not None:
        return Role.JOB
    if found.user_id is not None:
        return Role.USER
    if found.joins:
        return Role.JOIN
    return Role.NODE if found.site_id is None else Role.SITE


def caller() -> Caller:
    """The caller of the current request."""
    found: Caller = g.caller
    return found


def _caller() -> Caller:
    if "Authorization" in request.headers:
        scheme, _, token = request.headers["Authorization"].partition(" ")
    else:
        scheme, token = "bearer", session_cookie.get_token(request)
    if scheme.lower() != "bearer" or not token:
        raise Problem("no_token", "this needs a token", "`pit login` gets one", status=401)
    return head().callers.find(token.strip(), now=time.time())
