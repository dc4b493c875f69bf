"""Signing in and out: the account of `pit login`, and a token that only this browser has."""

import time

from flask import Blueprint, Response, redirect, request

from pit_protocol.messages.request_bodies import Login
from pit_protocol.problem import Problem
from pit_server.api.http import session_cookie
from pit_server.api.http.audited import audited
from pit_server.api.http.context import address, head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.users import tokens
from pit_server.services.users.registration import needs_setup
from pit_server.services.validation import storable
from pit_server.traffic import Traffic
from pit_server.web.errors import BY_SCRIPT
from pit_server.web.rendering import render

blueprint = Blueprint("web_session", __name__)
MAX_BODY = 16 * 1024
LABEL = "web page"


@blueprint.get("/sign-in")
@allow(Role.ANYONE)
def show() -> Response:
    """The form."""
    return _form(None, "")


@blueprint.post("/sign-in")
@allow(Role.ANYONE, max_bytes=MAX_BODY, traffic=Traffic.LOGIN)
def sign_in() -> Response:
    """Check name and password; the browser gets a cookie."""
    name, password = storable(request.form.get("name", "")).strip(), request.form.get("password", "")
    try:
        issued = head().auth.log_in(Login(name, password, LABEL), address(), now=time.time())
    except Problem as problem:
        if BY_SCRIPT in request.headers:
            raise
        return _form(problem, name)
    if BY_SCRIPT in request.headers:
        response = Response(status=204)
    else:
        response = redirect(_next(request.form.get("next", "")), 303)  # type: ignore[assignment]
    session_cookie.keep_token(request, response, issued.token, issued.expires_at - time.time())
    return response


@blueprint.post("/sign-out")
@allow(Role.USER, max_bytes=MAX_BODY)
def sign_out() -> Response:
    """Revoke the token of this browser."""
    number = caller().token_id
    with audited("revoke", f"token:{number}") as session:
        tokens.revoke(session, caller(), number)
    response = redirect("/sign-in", 303)
    session_cookie.drop_token(request, response)  # type: ignore[arg-type]
    return response  # type: ignore[return-value]


def _form(problem: Problem | None, name: str) -> Response:
    with head().database.read() as session:
        is_empty = needs_setup(session)
    wanted = request.values.get("next", "")
    return render(
        "sign_in.html",
        problem.status if problem else 200,
        problem=problem,
        name=name,
        next=_next(wanted),
        is_empty=is_empty,
        registration=head().auth.mode,
        url=head().settings.url or request.host_url.rstrip("/"),
    )


def _next(wanted: str) -> str:
    """Where to go afterwards: a page of this head, and no other address."""
    is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\", "/sign-"))
    return wanted if is_ours and wanted.isprintable() else "/"
