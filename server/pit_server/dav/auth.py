"""Authentication of WebDAV: a token, as a bearer or in place of a password, or a name and password."""

import base64
import binascii
import time
from typing import Any

from pit_protocol.problem import Problem
from pit_server.context import Head
from pit_server.services.users import tokens
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import storable


def find(head: Head, environ: dict[str, Any]) -> Caller:
    """Find the caller of a request, or raise a Problem."""
    scheme, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer" and given:
        return _by_token(head, given)
    if scheme.lower() == "basic" and given:
        name, password = _read_basic(given)
        # Programs that support only Basic can send a token as the password; the name is ignored then.
        if tokens.TOKEN.fullmatch(password):
            return _by_token(head, password)
        return head.auth.authenticate(name, password, environ.get("REMOTE_ADDR", ""), now=time.time())
    raise Problem(
        "no_token", "this needs a name and a password, or a token", "`pit login` gets one", status=401
    )


def _by_token(head: Head, text: str) -> Caller:
    found = head.callers.find(text, now=time.time())
    if found.user_id is None:
        raise Problem("wrong_kind_of_token", "this is for a user's token", status=403)
    return found


def _read_basic(text: str) -> tuple[str, str]:
    try:
        plain = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        plain = ""
    name, colon, password = plain.partition(":")
    if not colon or name != storable(name):
        raise Problem("bad_login", "wrong user name or password", status=401)
    return name, password
