"""Groups: people who share access, and what is kept for them."""

import re
from collections import defaultdict
from collections.abc import Set
from typing import Any

from sqlalchemy import Select, delete, insert, select, update
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.db.models import (
    Discard,
    Group,
    JobGroup,
    Membership,
    Node,
    NodeGroup,
    Resource,
    ResourceGroup,
    User,
)
from pit_server.services import accounts, cluster, names, rights
from pit_server.services.properties import Property, read_size_mib, read_text, size_text
from pit_server.services.rights import Act, Tie
from pit_server.services.tokens import Caller

PROPERTIES = (
    Property("title", read_text),
    Property("gid", accounts.read_number),
    Property("quota", read_size_mib),
)
COLUMNS = {"quota": "quota_mib"}


def variable_of(group: str) -> str:
    """The environment variable that has the group's directory."""
    return f"{re.sub('[^A-Z0-9]', '_', group.upper())}_GROUP_DIR"


def add(session: Session, name: str, values: dict[str, Any], *, now: float) -> Group:
    """Make a group; its variable must be its own, too."""
    names.check_name("group", name)
    cluster.lock(session)  # two at once must not get one variable
    for other in session.execute(select(Group.name)).scalars():
        if other == name:
            raise names.exists("group", name)
        if variable_of(other) == variable_of(name):
            raise Problem(
                "exists",
                f"group {other} has the variable {variable_of(name)} already",
                "choose another name",
                status=409,
            )
    accounts.check_free(session, values.get("gid"))
    group = Group(name=name, created_at=now, **values)
    session.add(group)
    session.flush()
    return group


def find(session: Session, name: str, *, lock: bool = False) -> Group:
    query = select(Group).where(Group.name == name)
    group = session.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if group is None:
        raise names.unknown("group", name)
    return group


def remove(session: Session, name: str) -> None:
    """Remove a group that nobody and nothing belongs to; jobs lose it as a reader."""
    group = find(session, name, lock=True)
    members = _members(session)[group.id]
    kept = _kept(session)[group.id]
    if members:
        raise names.in_use(
            f"group {name}",
            f"members are {names.some(members)}",
            f"`pit remove-group user:{members[0]} {name}` …",
        )
    if kept:
        raise names.in_use(
            f"group {name}",
            f"kept for it are {names.some(kept)}",
            f"`pit remove-group node:{kept[0]} {name}` …",
        )
    session.execute(delete(JobGroup).where(JobGroup.group_id == group.id))
    # What it has in the trash is nobody's: least of all that of the next group of this name.
    left = Discard.domain == f"group:{name}"
    session.execute(update(Discard).where(left).values(domain=f"removed:{name}"))
    session.delete(group)
    session.flush()


def add_member(session: Session, user_id: int, group: Group) -> bool:
    """Make the user a member; False if he was."""
    key = {"user_id": user_id, "group_id": group.id}
    if session.get(Membership, key):
        return False
    session.execute(insert(Membership).values(autoshares=False, **key))
    return True


def remove_member(session: Session, user_id: int, group: Group) -> None:
    is_his = (Membership.user_id == user_id) & (Membership.group_id == group.id)
    if not session.execute(delete(Membership).where(is_his)).rowcount:  # type: ignore[attr-defined]
        raise Problem(
            "no_member", f"the user is no member of {group.name}", "`pit show groups` lists them", status=404
        )


def of_user(user_id: int | None) -> Select[int]:
    """The ids of the groups a user belongs to, as part of other queries: looked up when used."""
    return select(Membership.group_id).where(Membership.user_id == user_id)


def shown_of(caller: Caller, mine: Set[str], of_other: list[str]) -> list[str]:
    """Which of another user's groups the caller sees: those that they have in common, or all as an admin."""
    everything = rights.allows(Act.SEE_GROUP, caller.ties)
    return [name for name in of_other if everything or name in mine]


def names_by_user(session: Session, user_id: int | None = None) -> dict[int, list[str]]:
    """Per user the names of his groups; of one user or of all."""
    query = (
        select(Membership.user_id, Group.name)
        .join(Group, Group.id == Membership.group_id)
        .order_by(Group.name)
    )
    if user_id is not None:
        query = query.where(Membership.user_id == user_id)
    found: dict[int, list[str]] = defaultdict(list)
    for member, name in session.execute(query):
        found[member].append(name)
    return found


def records(session: Session, caller: Caller, name: str | None = None) -> list[dict[str, Any]]:
    """Groups as the API shows them: to others than members and admins by name and title alone."""
    query = select(Group).order_by(Group.name)
    groups = session.execute(query.where(Group.name == name) if name else query).scalars().all()
    members, kept = _members(session), _kept(session)
    result = []
    for group in groups:
        record: dict[str, Any] = {"name": group.name, "title": group.title, "nodes": kept[group.id]}
        ties = caller.ties | ({Tie.MEMBER} if caller.name in members[group.id] else set())
        if rights.allows(Act.SEE_GROUP, ties):
            gid = accounts.gid_of(group.id, group.gid)
            quota = size_text(group.quota_mib)
            record |= {"members": members[group.id], "gid": gid, "quota": quota}
        result.append(record)
    return result


def _members(session: Session) -> dict[int, list[str]]:
    query = (
        select(Membership.group_id, User.name).join(User, User.id == Membership.user_id).order_by(User.name)
    )
    found: dict[int, list[str]] = defaultdict(list)
    for group_id, name in session.execute(query):
        found[group_id].append(name)
    return found


def _kept(session: Session) -> dict[int, list[str]]:
    """Per group the nodes (`n0`) and resources (`n0:1`) that are kept for it."""
    found: dict[int, list[str]] = defaultdict(list)
    for group_id, name in session.execute(
        select(NodeGroup.group_id, Node.name).join(Node, Node.id == NodeGroup.node_id).order_by(Node.name)
    ):
        found[group_id].append(name)
    for group_id, name, position in session.execute(
        select(ResourceGroup.group_id, Node.name, Resource.position)
        .join(Resource, Resource.id == ResourceGroup.resource_id)
        .join(Node, Node.id == Resource.node_id)
        .order_by(Node.name, Resource.position)
    ):
        found[group_id].append(f"{name}:{position}")
    return found
