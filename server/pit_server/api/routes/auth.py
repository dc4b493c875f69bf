"""Login, registration, and the caller's tokens."""

import time

from flask import Blueprint, request

from pit_protocol.answers.users import (
    AwaitingApproval,
    IssuedToken,
    SetupCodeChecked,
    TokenList,
    TokenRevoked,
)
from pit_protocol.messages.request_bodies import Login, Registration, SetupCode
from pit_protocol.problem import Problem
from pit_server.api.http.audited import audited
from pit_server.api.http.context import address, head, message
from pit_server.api.http.description import Param, describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.http.paging import PAGE, page
from pit_server.services.users import tokens
from pit_server.traffic import Traffic

blueprint = Blueprint("auth", __name__)
MAX_BODY = 16 * 1024
CURRENT = "current"


@blueprint.post("/login")
@allow(Role.ANYONE, max_bytes=MAX_BODY, traffic=Traffic.LOGIN)
@describe(body=Login, status=(201,))
def login() -> tuple[IssuedToken, int]:
    """Get a token for a name and a password."""
    return head().auth.log_in(message(Login), address(), now=time.time()), 201


@blueprint.post("/users")
@allow(Role.ANYONE, max_bytes=MAX_BODY, traffic=Traffic.LOGIN)
@describe(body=Registration, status=(201, 202))
def register() -> tuple[IssuedToken | AwaitingApproval, int]:
    """Register a user; 202 if an admin must approve."""
    wanted = message(Registration)
    issued = head().auth.register(wanted, address(), now=time.time())
    if issued is None:
        text = f"an admin has to approve user {wanted.name}: `pit set user:{wanted.name} active=yes`"
        return AwaitingApproval(wanted.name, text), 202
    return issued, 201


@blueprint.post("/setup-code")
@allow(Role.ANYONE, max_bytes=MAX_BODY)
@describe(body=SetupCode)
def check_setup_code() -> SetupCodeChecked:
    """Check the code before the first user answers all other questions."""
    head().auth.check_setup_code(message(SetupCode).setup_code, address())
    return SetupCodeChecked(valid=True)


@blueprint.get("/tokens")
@allow(Role.USER)
@describe(Param("user", "of this user, or `*` for all; for admins"), *PAGE)
def list_tokens() -> TokenList:
    """The caller's tokens."""
    with head().database.read() as session:
        found = tokens.records(session, caller(), request.args.get("user", ""))
    return TokenList(page(found, lambda token: token.id))


@blueprint.delete("/tokens/<token_id>")
@allow(Role.USER)
def revoke(token_id: str) -> TokenRevoked:
    """Revoke a token; `current` is the one of this request."""
    number = caller().token_id if token_id == CURRENT else _number(token_id)
    with audited("revoke", f"token:{number}") as session:
        tokens.revoke(session, caller(), number)
    return TokenRevoked(number)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise Problem(
            "no_such_token", f"there is no token {text[:40]}", "`pit show tokens` lists them", status=404
        )
    return int(text)
