"""User accounts: adding, changing, showing and removing them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from pit_protocol.answers import users as answers
from pit_protocol.notifications import PREFIX as CHANNEL_PREFIX
from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.database import notify_after_commit
from pit_server.db.models import Group, Job, Membership, User
from pit_server.services import cluster, names
from pit_server.services.files import unix_ids
from pit_server.services.notifications import channels, outbox
from pit_server.services.properties import (
    Property,
    read_email,
    read_names,
    read_raw,
    read_size_mib,
    read_some_text,
    read_text,
    read_yes_no,
    size_text,
)
from pit_server.services.users import deactivation, groups, limits, permissions, secrets, shares, tokens
from pit_server.services.users.permissions import Action, Relation
from pit_server.services.users.tokens import Caller
from pit_server.wakeups import SCHEDULER, STATUS

ME = "me"
OLD_PASSWORD = "old_password"  # noqa: S105 - the name of a value that comes with a new one
PROPERTIES = (
    Property("full_name", read_some_text, Action.CHANGE_ACCOUNT, is_mandatory=True),
    Property("email", read_email, Action.CHANGE_ACCOUNT),
    Property("password", read_raw, Action.CHANGE_ACCOUNT),
    Property("autoshare", read_names, Action.CHANGE_ACCOUNT),
    Property("admin", read_yes_no, Action.GOVERN_ACCOUNT),
    Property("active", read_yes_no, Action.GOVERN_ACCOUNT),
    Property("jobs", deactivation.read_choice, Action.GOVERN_ACCOUNT),
    Property("uid", unix_ids.read_number, Action.GOVERN_ACCOUNT),
    Property("quota", read_size_mib, Action.GOVERN_ACCOUNT),
    Property("share_group", read_text, Action.GOVERN_ACCOUNT),
    Property("max_priority", shares.read_priority, Action.GOVERN_ACCOUNT),
    *limits.USER_PROPERTIES,
    Property(secrets.PREFIX, secrets.read, Action.CHANGE_ACCOUNT),
    Property("notify", channels.read_events, Action.CHANGE_ACCOUNT),
    Property(CHANNEL_PREFIX, channels.read, Action.CHANGE_ACCOUNT),
)
COLUMNS = {
    "full_name": "full_name",
    "email": "email",
    "admin": "is_admin",
    "active": "is_active",
    "uid": "uid",
    "quota": "quota_mib",
    "max_priority": "max_priority",
    "notify": "notify",
}


def add(session: Session, name: str, *, now: float, **columns: Any) -> User:
    """Add an account; the name of a removed one stays taken."""
    names.check_name("user", name)
    known = session.execute(select(User.removed_at).where(User.name == name)).first()
    if known is not None:
        raise taken(name, was_removed=known.removed_at is not None)
    user = User(
        name=name, created_at=now, approved_at=now if columns.get("is_active", True) else None, **columns
    )
    session.add(user)
    session.flush()
    return user


def taken(name: str, *, was_removed: bool = False) -> Problem:
    whose = (
        f"{name} was the name of a removed user and cannot be used again"
        if was_removed
        else f"there is a user {name} already"
    )
    return Problem("exists", whose, "choose another name", status=409)


def find(session: Session, caller: Caller, name: str, *, lock: bool = False) -> User:
    """The user of that name; `me` is the caller. Removed users are not found."""
    if lock:
        cluster.lock(session)  # serialized, or two admins could demote each other at once
    wanted = caller.name if name == ME else name
    query = select(User).where(User.name == wanted, User.removed_at.is_(None))
    user = session.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if user is None:
        raise names.unknown("user", name)
    return user


def list_unapproved(session: Session, limit: int) -> tuple[list[str], int]:
    """The names of users whom an admin has to approve, oldest first, and how many there are."""
    waiting = (User.approved_at.is_(None), User.is_active.is_(False), User.removed_at.is_(None))
    total = session.execute(select(func.count()).select_from(User).where(*waiting)).scalar_one()
    query = select(User.name).where(*waiting).order_by(User.created_at, User.name).limit(limit)
    return list(session.execute(query).scalars()) if total else [], total


def relations(caller: Caller, user: User) -> set[Relation]:
    return caller.relations | ({Relation.OWNER} if user.id == caller.user_id else set())


def set_properties(
    session: Session,
    caller: Caller,
    user: User,
    values: Sequence[tuple[Property, str, Any]],
    *,
    home: Path,
    now: float,
) -> None:
    """Change an account, or raise a Problem if the caller may not; a password comes as its hash."""
    mine = relations(caller, user)
    for prop, name, value in values:
        permissions.require(prop.action or Action.GOVERN_ACCOUNT, mine, f"{name} of user {user.name}")
        if name == "password":
            user.password_hash = value
            kept = caller.token_id if user.id == caller.user_id else None
            tokens.revoke_others(session, user.id, kept)
        elif name == "autoshare":
            _set_autoshare(session, user, value)
        elif name == "share_group":
            user.share_group_id = shares.find_group(session, user, value)
        elif name in limits.NAMES:
            limits.put(user, name, value)
        elif name.startswith(secrets.PREFIX):
            secrets.put(session, home, user.id, name.lower(), value)
        elif name.startswith(CHANNEL_PREFIX):
            channels.put(session, home, user, name, value, now=now)
        elif name != "jobs":
            if name in ("admin", "active") and not value:
                _check_not_last_admin(session, user)
            if name == "uid":
                unix_ids.check_free(session, value, user_id=user.id)
            setattr(user, COLUMNS[name], value)
    if user.is_active and user.approved_at is None:
        user.approved_at = now
    session.flush()
    channels.check_signed(session, user.id)
    for choice in (value for _, name, value in values if name == "jobs"):
        deactivation.apply(session, caller, user, choice, now=now)
    notify_after_commit(session, SCHEDULER, STATUS)  # jobs are held or go on, nodes close or open


def remove(session: Session, caller: Caller, user: User, *, now: float) -> dict[str, Any]:
    """Remove an account: its tokens are revoked, its jobs stay, its name stays taken.

    Returns what `restore` needs to bring it back.
    """
    if user.id == caller.user_id:
        raise Problem("own_account", "you cannot remove your own account", "another admin can", status=409)
    _check_not_last_admin(session, user)
    open_jobs = session.execute(
        select(Job.id)
        .where(Job.user_id == user.id, Job.state != JobState.ENDED, Job.array_job.is_(None))
        .order_by(Job.id)
    ).scalars()
    if numbers := list(open_jobs):
        why = f"{names.jobs(numbers)} not ended"
        raise names.in_use(f"user {user.name}", why, f"`pit stop {numbers[0]}` …")
    tokens.revoke_all(session, user_id=user.id)
    rows = session.execute(select(Membership).where(Membership.user_id == user.id)).scalars()
    record = {
        "active": user.is_active,
        "admin": user.is_admin,
        "groups": [[row.group_id, row.autoshares] for row in rows],
    }
    session.execute(delete(Membership).where(Membership.user_id == user.id))
    user.share_group_id = None
    user.is_active = user.is_admin = False
    user.removed_at = now
    session.flush()
    return record


def restore(session: Session, name: str, record: dict[str, Any]) -> None:
    """Undo a removal, with the memberships in groups that are still there; tokens stay revoked."""
    user = session.execute(select(User).where(User.name == name)).scalar_one()
    user.removed_at, user.is_active, user.is_admin = None, record["active"], record["admin"]
    there = set(session.execute(select(Group.id)).scalars())
    for group_id, autoshares in record["groups"]:
        if group_id in there:
            session.add(Membership(user_id=user.id, group_id=group_id, autoshares=autoshares))
    session.flush()


def scrub(session: Session, name: str) -> None:
    """Delete the secrets of a removed account for good; its name stays taken."""
    user = session.execute(select(User).where(User.name == name)).scalar_one()
    secrets.delete_all(session, user.id)
    outbox.forget_user(session, user.id)
    session.execute(update(Job).where(Job.user_id == user.id).values(variables={}))
    user.password_hash = None
    session.flush()


def records(session: Session, caller: Caller, name: str | None = None) -> list[answers.User]:
    """Users as the API shows them, without what the caller may not see."""
    query = select(User).where(User.removed_at.is_(None)).order_by(User.name)
    users = session.execute(query.where(User.name == name) if name else query).scalars().all()
    memberships = groups.names_by_user(session)
    mine = set(memberships[caller.user_id or 0])
    autoshares, hosts, told_by = _autoshares(session), secrets.hosts(session), channels.list_all(session)
    charged = shares.group_names(session)
    result = []
    for user in users:
        shown = groups.shown_of(caller, mine, memberships[user.id])
        record = answers.User(user.name, user.full_name, shown)
        if permissions.allows(Action.SEE_ACCOUNT, relations(caller, user)):
            record = replace(
                record,
                email=user.email,
                admin=user.is_admin,
                active=user.is_active,
                state=_state(user),
                autoshare=autoshares.get(user.id, []),
                git=hosts.get(user.id, []),
                uid=unix_ids.uid_of(user.id, user.uid),
                quota=size_text(user.quota_mib),
                share_group=charged.get(user.id, ""),
                max_priority=user.max_priority,
                **limits.texts(user.limits),
                notify=user.notify,
                channels=told_by.get(user.id, []),
                created_at=user.created_at,
                jobs=UNSET if user.is_active else deactivation.list_jobs(session, user),
            )
        result.append(record)
    return result


def _state(user: User) -> str:
    if user.is_active:
        return "active"
    return "unapproved" if user.approved_at is None else "inactive"


def _autoshares(session: Session) -> dict[int, list[str]]:
    shares: dict[int, list[str]] = {}
    for user_id, name in session.execute(
        select(Membership.user_id, Group.name)
        .join(Group, Group.id == Membership.group_id)
        .where(Membership.autoshares)
        .order_by(Group.name)
    ):
        shares.setdefault(user_id, []).append(name)
    return shares


def _set_autoshare(session: Session, user: User, wanted: Sequence[str]) -> None:
    theirs = groups.names_by_user(session, user.id)[user.id]
    if foreign := [name for name in wanted if name not in theirs]:
        raise Problem(
            "no_member",
            f"user {user.name} is not a member of {foreign[0]}",
            f"groups are: {names.some(theirs)}"
            if theirs
            else "an admin adds members: `pit add-group user:NAME GROUP`",
            status=422,
        )
    chosen = select(Group.id).where(Group.name.in_(wanted))
    session.execute(
        update(Membership)
        .where(Membership.user_id == user.id)
        .values(autoshares=Membership.group_id.in_(chosen))
        .execution_options(synchronize_session=False)
    )


def _check_not_last_admin(session: Session, user: User) -> None:
    admins = select(User.id).where(User.is_admin, User.is_active)
    if list(session.execute(admins).scalars()) == [user.id]:
        raise Problem(
            "last_admin",
            f"user {user.name} is the last admin",
            "`pit set user:NAME admin=yes` makes another one",
            status=409,
        )
