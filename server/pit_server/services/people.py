"""Users and bearer tokens. A token is `pit_<id>_<secret>`; only the hash of the secret is kept."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.db.models import Node, Token, User

NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
TOKEN = re.compile(r"pit_([0-9]{1,18})_([A-Za-z0-9_-]{43})")
HOW_TO_RENEW = "`pit connect URL` stores a new one"
DAY_S = 86_400.0
NOTE_USE_AFTER_S = 3_600.0  # a write per request would cost more than the knowledge is worth


@dataclass(frozen=True)
class Caller:
    """Who a request comes from."""

    user_id: int | None
    node_id: int | None
    name: str
    full_name: str = ""
    is_admin: bool = False


def check_name(kind: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise Problem(
            "bad_name",
            f"{name[:40]!r} cannot be the name of a {kind}",
            "a letter first, then letters, digits, - and _, all lower case, at most 32",
            status=422,
        )


def add_user(session: Session, name: str, *, is_admin: bool, now: float, full_name: str = "") -> User:
    """The user of that name, made if there is none yet."""
    check_name("user", name)
    user = session.execute(select(User).where(User.name == name)).scalar_one_or_none()
    if user is None:
        user = User(name=name, full_name=full_name, is_admin=is_admin, is_active=True, created_at=now)
        session.add(user)
        session.flush()
    return user


def issue_token(
    session: Session,
    *,
    user_id: int | None = None,
    node_id: int | None = None,
    now: float,
    days: float | None,
    label: str = "",
) -> str:
    """Make a token for a user or for a node; its text is shown here and never again."""
    secret = secrets.token_urlsafe(32)
    token = Token(
        user_id=user_id,
        node_id=node_id,
        secret_sha256=_digest(secret),
        label=label,
        created_at=now,
        expires_at=None if days is None else now + days * DAY_S,
    )
    session.add(token)
    session.flush()
    return f"pit_{token.id}_{secret}"


_CALLER = (
    select(
        Token.id,
        Token.user_id,
        Token.node_id,
        Token.secret_sha256,
        Token.expires_at,
        Token.last_used_at,
        User.name,
        User.full_name,
        User.is_admin,
        User.is_active,
        Node.name.label("node"),
    )
    .outerjoin(User, User.id == Token.user_id)
    .outerjoin(Node, Node.id == Token.node_id)
)


def find_caller(session: Session, text: str, *, now: float) -> tuple[Caller, int | None]:
    """Who holds this token, and the token's id if its use is worth noting; 401 if nobody does."""
    match = TOKEN.fullmatch(text)
    row = match and session.execute(_CALLER.where(Token.id == int(match[1]))).one_or_none()
    if not match or not row or not hmac.compare_digest(row.secret_sha256, _digest(match[2])):
        raise Problem(
            "unknown_token",
            "the head does not know this token",
            "`pit connect URL` stores a new one",
            status=401,
        )
    if row.expires_at is not None and row.expires_at <= now:
        raise Problem(
            "expired_token", "the token has expired", "`pit connect URL` stores a new one", status=401
        )
    if row.user_id is not None and not row.is_active:
        raise Problem(
            "inactive_user", f"user {row.name} is not active", "an admin can change that", status=403
        )
    stale = row.last_used_at is None or now - row.last_used_at > NOTE_USE_AFTER_S
    if row.user_id is None:
        return Caller(None, row.node_id, row.node), row.id if stale else None
    return Caller(row.user_id, None, row.name, row.full_name, row.is_admin), row.id if stale else None


def note_use(session: Session, token_id: int, *, now: float) -> None:
    session.execute(update(Token).where(Token.id == token_id).values(last_used_at=now))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
