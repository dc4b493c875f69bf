"""Who calls by WebDAV: a token, plain or in place of a password, or a name with its password."""

import base64
import binascii
import time
from typing import Any

from pit_protocol.problem import Problem
from pit_server.head import Head
from pit_server.services import tokens
from pit_server.services.inputs import storable
from pit_server.services.tokens import Caller


def find(head: Head, environ: dict[str, Any]) -> Caller:
    """The caller, looked up anew with every request; raises a Problem for everyone else."""
    scheme, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer" and given:
        return _by_token(head, given)
    if scheme.lower() == "basic" and given:
        name, password = _read_basic(given)
        # Programs that know names and passwords only can use a token, too; the name says nothing then.
        if tokens.TOKEN.fullmatch(password):
            return _by_token(head, password)
        return head.door.admit(name, password, environ.get("REMOTE_ADDR", ""), now=time.time())
    raise Problem(
        "no_token", "this needs a name and a password, or a token", "`pit login` gets one", status=401
    )


def _by_token(head: Head, text: str) -> Caller:
    now = time.time()
    with head.database.read() as session:
        found, is_stale = tokens.find_caller(session, text, now=now)
    if found.user_id is None:
        raise Problem("wrong_kind_of_token", "this is for a user's token", status=403)
    if is_stale:
        with head.database.write() as session:
            tokens.note_use(session, found.token_id, now=now)
    return found


def _read_basic(text: str) -> tuple[str, str]:
    try:
        plain = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        plain = ""
    name, colon, password = plain.partition(":")
    if not colon or name != storable(name):
        raise Problem("bad_login", "the head does not know this user with this password", status=401)
    return name, password
