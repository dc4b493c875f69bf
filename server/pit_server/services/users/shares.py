"""A user's place in the queue: the group that is charged for their jobs, and the priority they may give."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.job_options import NORMAL, PRIORITIES
from pit_protocol.problem import Problem
from pit_server.db.memo import remembered
from pit_server.db.models import Group, Membership, User
from pit_server.services.users import groups
from pit_server.services.users.tokens import Caller


def resolve_priority(session: Session, caller: Caller, wanted: str | None) -> str | None:
    """The priority of a new job. One above what the user may give is refused; admins may give each."""
    if caller.is_admin:
        return wanted
    query = select(User.id, User.max_priority)
    allowed = remembered(session, "priorities", (User,), lambda reader: dict(reader.execute(query).all()))
    most = allowed[caller.user_id or 0]
    if PRIORITIES.index(wanted or NORMAL) <= PRIORITIES.index(most):
        return wanted
    if wanted is None:
        return most
    raise Problem(
        "priority_too_high",
        f"you may submit jobs with a priority up to {most}, not {wanted}",
        f"an admin can allow it: `pit set user:{caller.name} max_priority={wanted}`",
        status=403,
    )


def read_priority(name: str, text: str) -> str:
    if text not in PRIORITIES:
        known = ", ".join(PRIORITIES)
        raise Problem(f"bad_{name}", f"{name} must be one of {known}, not {text[:40]!r}", status=422)
    return text


def find_group(session: Session, user: User, name: str) -> int | None:
    """The group that is to be charged for the user's jobs; it must be one of theirs."""
    if not name:
        return None
    group = groups.find(session, name)
    if session.get(Membership, {"user_id": user.id, "group_id": group.id}) is None:
        raise Problem(
            "no_member",
            f"user {user.name} is not a member of {name}",
            f"`pit add-group user:{user.name} {name}` first",
            status=422,
        )
    return group.id


def group_names(session: Session) -> dict[int, str]:
    """The group that is charged for each user."""
    query = select(User.id, Group.name).join(Group, Group.id == User.share_group_id)
    return {row.id: row.name for row in session.execute(query)}
