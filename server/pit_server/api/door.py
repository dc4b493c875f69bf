"""Coming in: login, registration, and one's own tokens."""

import time
from typing import Any

from flask import Blueprint, request

from pit_protocol.problem import Problem
from pit_protocol.wire import from_json, to_json
from pit_server.api.context import address, head, json_body
from pit_server.api.deeds import deed
from pit_server.api.policy import Who, allow, caller
from pit_server.services import tokens
from pit_server.services.registration import Login, Registration

blueprint = Blueprint("door", __name__)
MAX_BODY = 16 * 1024
CURRENT = "current"


@blueprint.post("/login")
@allow(Who.ANYONE, max_bytes=MAX_BODY)
def login() -> tuple[Any, int]:
    issued = head().door.log_in(from_json(Login, json_body()), address(), now=time.time())
    return to_json(issued), 201


@blueprint.post("/users")
@allow(Who.ANYONE, max_bytes=MAX_BODY)
def register() -> tuple[Any, int]:
    wanted = from_json(Registration, json_body())
    issued = head().door.register(wanted, address(), now=time.time())
    if issued is None:
        message = f"an admin has to approve user {wanted.name}: `pit set user:{wanted.name} active=yes`"
        return {"name": wanted.name, "message": message}, 202
    return to_json(issued), 201


@blueprint.get("/tokens")
@allow(Who.USER)
def list_tokens() -> dict[str, Any]:
    with head().database.read() as session:
        return {"tokens": tokens.records(session, caller(), request.args.get("user", ""))}


@blueprint.delete("/tokens/<token_id>")
@allow(Who.USER)
def revoke(token_id: str) -> dict[str, Any]:
    number = caller().token_id if token_id == CURRENT else _number(token_id)
    with deed("revoke", f"token:{number}") as session:
        tokens.revoke(session, caller(), number)
    return {"id": number}


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise Problem(
            "no_such_token", f"there is no token {text[:40]}", "`pit show tokens` lists them", status=404
        )
    return int(text)
