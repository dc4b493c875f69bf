"""Bearer tokens: `pit_<id>_<secret>`; only the secret's hash is stored."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from pit_protocol.answers import users as answers
from pit_protocol.problem import Problem
from pit_server.db.database import AnyRow, notify_after_commit
from pit_server.db.models import IS_LIVE, Node, Process, Site, Token, User
from pit_server.services import names
from pit_server.services.users import permissions
from pit_server.services.users.permissions import Action, Relation
from pit_server.wakeups import ACCESS

TOKEN = re.compile(r"pit_([0-9]{1,18})_([A-Za-z0-9_-]{43})")
HOW_TO_RENEW = "`pit login` gets a new one"
NOTE_USE_AFTER_S = 3_600.0  # so that not every request writes to the database
ALL = "*"


@dataclass(frozen=True)
class Caller:
    """Who sent a request: a user, a job, the worker of a node, the agent of a site, or one that joins."""

    user_id: int | None
    node_id: int | None
    name: str
    full_name: str = ""
    is_admin: bool = False
    token_id: int = 0
    joins: bool = False
    attempt_id: int | None = None  # of a job's own token: gives its user's data while the attempt runs
    expires_at: float | None = None
    site_id: int | None = None

    @property
    def actor(self) -> str:
        """The caller's name in the audit."""
        if self.site_id is not None:
            return f"site:{self.name}"
        return self.name if self.node_id is None else f"node:{self.name}"

    @property
    def relations(self) -> set[Relation]:
        """The caller's relation to every object."""
        return {Relation.ADMIN} if self.is_admin else set()


def issue(
    session: Session,
    *,
    user_id: int | None = None,
    node_id: int | None = None,
    site_id: int | None = None,
    now: float,
    expires_at: float | None,
    label: str = "",
    joins: bool = False,
    attempt_id: int | None = None,
) -> tuple[int, str]:
    """Create a token for a user, a node or a site; returns its id and its text, which is not stored."""
    secret = secrets.token_urlsafe(32)
    token = Token(
        user_id=user_id,
        node_id=node_id,
        site_id=site_id,
        secret_sha256=_digest(secret),
        label=label,
        created_at=now,
        expires_at=expires_at,
        joins=joins,
        attempt_id=attempt_id,
    )
    session.add(token)
    session.flush()
    return token.id, f"pit_{token.id}_{secret}"


_CALLER = (
    select(
        Token.id,
        Token.user_id,
        Token.node_id,
        Token.site_id,
        Token.secret_sha256,
        Token.expires_at,
        Token.last_used_at,
        Token.joins,
        Token.attempt_id,
        User.name,
        User.full_name,
        User.is_admin,
        User.is_active,
        Node.name.label("node"),
        Site.name.label("site"),
    )
    .outerjoin(User, User.id == Token.user_id)
    .outerjoin(Node, Node.id == Token.node_id)
    .outerjoin(Site, Site.id == Token.site_id)
)


def find_caller(session: Session, text: str, *, now: float) -> tuple[Caller, bool]:
    """The holder of this token, and whether to note its use; a Problem if there is none."""
    match = TOKEN.fullmatch(text)
    row = match and session.execute(_CALLER.where(Token.id == int(match[1]))).one_or_none()
    if not match or not row or not hmac.compare_digest(row.secret_sha256, _digest(match[2])):
        raise Problem("unknown_token", "this token is not valid", HOW_TO_RENEW, status=401)
    if row.expires_at is not None and row.expires_at <= now:
        raise Problem("expired_token", "the token has expired", HOW_TO_RENEW, status=401)
    if row.attempt_id is not None:
        return _job(session, row), False  # also if its user is not active: running jobs may finish
    if row.user_id is not None and not row.is_active:
        raise inactive(row.name)
    stale = row.last_used_at is None or now - row.last_used_at > NOTE_USE_AFTER_S
    if row.site_id is not None:
        found = Caller(None, None, row.site, token_id=row.id, joins=row.joins, site_id=row.site_id)
    elif row.user_id is None:
        found = Caller(None, row.node_id, row.node, token_id=row.id, joins=row.joins)
    else:
        found = Caller(row.user_id, None, row.name, row.full_name, row.is_admin, row.id)
    return replace(found, expires_at=row.expires_at), stale


def _job(session: Session, row: AnyRow) -> Caller:
    """The caller of a job's own token: never an admin, and invalid once no process of the attempt runs."""
    live = select(Process.id).where(Process.attempt_id == row.attempt_id, IS_LIVE).limit(1)
    if not session.execute(live).first():
        raise Problem("expired_token", "the job of this token has ended", status=401)
    return Caller(row.user_id, None, row.name, row.full_name, token_id=row.id, attempt_id=row.attempt_id)


def inactive(name: str) -> Problem:
    return Problem(
        "inactive_user",
        f"user {name} is not active",
        f"an admin can change that: `pit set user:{name} active=yes`",
        status=403,
    )


def note_use(session: Session, token_id: int, *, now: float) -> None:
    session.execute(update(Token).where(Token.id == token_id).values(last_used_at=now))


def records(session: Session, caller: Caller, whose: str = "") -> list[answers.Token]:
    """The caller's tokens; admins may also list those of the user `whose`, or of all users."""
    query = select(Token, User.name).join(User, User.id == Token.user_id).order_by(Token.id)
    query = query.where(Token.attempt_id.is_(None))  # jobs' own tokens are managed by the head
    if whose and whose != caller.name:
        permissions.require(Action.REVOKE_TOKEN, caller.relations, f"the tokens of {whose}")
        if whose != ALL and not session.execute(select(User.id).where(User.name == whose)).first():
            raise names.unknown("user", whose)
        query = query if whose == ALL else query.where(User.name == whose)
    else:
        query = query.where(Token.user_id == caller.user_id)
    return [
        answers.Token(
            id=row.Token.id,
            user=row.name,
            label=row.Token.label,
            created_at=row.Token.created_at,
            expires_at=row.Token.expires_at,
            last_used_at=row.Token.last_used_at,
            current=row.Token.id == caller.token_id,
        )
        for row in session.execute(query)
    ]


def revoke(session: Session, caller: Caller, token_id: int) -> str:
    """Revoke one token; returns its user's name."""
    row = session.execute(
        select(Token.user_id, User.name)
        .join(User, User.id == Token.user_id)
        .where(Token.id == token_id)
        .with_for_update(of=Token)
    ).one_or_none()
    relations = caller.relations | ({Relation.OWNER} if row and row.user_id == caller.user_id else set())
    if row is None or not permissions.allows(Action.REVOKE_TOKEN, relations):
        raise Problem(
            "no_such_token", f"there is no token {token_id}", "`pit show tokens` lists them", status=404
        )
    session.execute(delete(Token).where(Token.id == token_id))
    notify_after_commit(session, ACCESS)
    return str(row.name)


def use_up(session: Session, token_id: int) -> None:
    """Consume a token that is valid once; a Problem if it was used already."""
    if not session.execute(delete(Token).where(Token.id == token_id)).rowcount:  # type: ignore[attr-defined]
        raise Problem("unknown_token", "this code was used already", "ask for a new one", status=401)


def revoke_all(
    session: Session,
    *,
    user_id: int | None = None,
    node_id: int | None = None,
    site_id: int | None = None,
    only_codes: bool = False,
) -> None:
    """Revoke all tokens of a user, a node or a site; with `only_codes`, only join codes."""
    owner = Token.user_id == user_id if user_id is not None else Token.node_id == node_id
    if site_id is not None:
        owner = Token.site_id == site_id
    session.execute(delete(Token).where(owner & Token.joins if only_codes else owner))
    notify_after_commit(session, ACCESS)


def revoke_others(session: Session, user_id: int, kept: int | None) -> None:
    """Revoke all tokens of a user but one; those of running jobs stay."""
    others = (Token.user_id == user_id) & Token.attempt_id.is_(None)
    session.execute(delete(Token).where(others if kept is None else others & (Token.id != kept)))
    notify_after_commit(session, ACCESS)


def revoke_of_attempts(session: Session, attempt_ids: Collection[int], label: str | None = None) -> None:
    """Revoke the tokens of attempts; with `label`, only those with that label."""
    mine = Token.attempt_id.in_(attempt_ids)
    session.execute(delete(Token).where(mine if label is None else mine & (Token.label == label)))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
