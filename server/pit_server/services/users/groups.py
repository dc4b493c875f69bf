"""Groups: users who share access, and the nodes reserved for them."""

import re
from collections import defaultdict
from collections.abc import Sequence, Set
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Select, delete, insert, select, update
from sqlalchemy.orm import Session

from pit_protocol.answers import users as answers
from pit_protocol.problem import Problem
from pit_server.db.database import notify_after_commit
from pit_server.db.memo import remembered
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
from pit_server.services import cluster, names
from pit_server.services.files import unix_ids
from pit_server.services.properties import Property, read_size_mib, read_text, size_text
from pit_server.services.users import limits, permissions
from pit_server.services.users.permissions import Action, Relation
from pit_server.services.users.tokens import Caller
from pit_server.wakeups import SCHEDULER, STATUS

PROPERTIES = (
    Property("title", read_text),
    Property("gid", unix_ids.read_number),
    Property("quota", read_size_mib),
    *limits.GROUP_PROPERTIES,
)
COLUMNS = {"quota": "quota_mib"}
RECORDED = ("id", "title", "created_at", "gid", "quota_mib", "limits")  # of a group in the trash


def variable_of(group: str) -> str:
    """The environment variable with the group's directory."""
    return f"{re.sub('[^A-Z0-9]', '_', group.upper())}_GROUP_DIR"


def add(session: Session, name: str, values: dict[str, Any]) -> Group:
    """Add a group; its environment variable must be unique, too."""
    names.check_name("group", name)
    cluster.lock(session)  # two concurrent ones must not get the same variable
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
    unix_ids.check_free(session, values.get("gid"))
    group = Group(name=name, **values)
    session.add(group)
    session.flush()
    return group


def set_properties(session: Session, group: Group, values: Sequence[tuple[Property, str, Any]]) -> None:
    for _, name, value in values:
        if name in limits.NAMES:
            limits.put(group, name, value)
            continue
        if name == "gid":
            unix_ids.check_free(session, value, group_id=group.id)
        setattr(group, COLUMNS.get(name, name), value)
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)  # jobs that are over a limit may start


def find(session: Session, name: str, *, lock: bool = False) -> Group:
    query = select(Group).where(Group.name == name)
    group = session.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if group is None:
        raise names.unknown("group", name)
    return group


def remove(session: Session, name: str) -> dict[str, Any]:
    """Remove a group without members and without nodes reserved for it; jobs are no longer shared with it.

    Returns what `restore` needs to bring it back.
    """
    cluster.lock(session)  # a directory of its name is either its own or that of a new group
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
            f"reserved for it are {names.some(kept)}",
            f"`pit remove-group node:{kept[0]} {name}` …",
        )
    shared = session.execute(select(JobGroup.job_id).where(JobGroup.group_id == group.id)).scalars()
    record = {"jobs": list(shared), **{name: getattr(group, name) for name in RECORDED}}
    session.execute(delete(JobGroup).where(JobGroup.group_id == group.id))
    # A later group of the same name must not get what this one has in the trash.
    left = (Discard.domain == f"group:{name}") & (Discard.kind == "files")
    session.execute(update(Discard).where(left).values(domain=removed_domain(name, record)))
    session.delete(group)
    session.flush()
    return record


def restore(session: Session, name: str, record: dict[str, Any]) -> None:
    """Undo a removal; a Problem if there is another group of the name or with its number by now."""
    group = add(session, name, {column: record[column] for column in RECORDED if column in record})
    if record["jobs"]:
        rows = [{"job_id": number, "group_id": group.id} for number in record["jobs"]]
        session.execute(insert(JobGroup), rows)
    theirs = Discard.domain == removed_domain(name, record)
    session.execute(update(Discard).where(theirs).values(domain=f"group:{name}"))
    session.flush()


def removed_domain(name: str, record: dict[str, Any]) -> str:
    """The domain of files that a removed group has in the trash."""
    return f"removed:{name}:{record['id']}"


def add_member(session: Session, user_id: int, group: Group) -> bool:
    """Make the user a member; False if they already are."""
    key = {"user_id": user_id, "group_id": group.id}
    if session.get(Membership, key):
        return False
    session.execute(insert(Membership).values(autoshares=False, **key))
    return True


def remove_member(session: Session, user_id: int, group: Group) -> None:
    theirs = (User.id == user_id) & (User.share_group_id == group.id)
    session.execute(update(User).where(theirs).values(share_group_id=None))
    is_theirs = (Membership.user_id == user_id) & (Membership.group_id == group.id)
    if not session.execute(delete(Membership).where(is_theirs)).rowcount:  # type: ignore[attr-defined]
        raise Problem(
            "no_member",
            f"the user is not a member of {group.name}",
            "`pit show groups` lists them",
            status=404,
        )


def of_user(user_id: int | None) -> Select[int]:
    """A query for the ids of a user's groups, for use in other queries."""
    return select(Membership.group_id).where(Membership.user_id == user_id)


def shown_of(caller: Caller, mine: Set[str], of_other: list[str]) -> list[str]:
    """Which of another user's groups the caller sees: common ones; an admin sees all."""
    everything = permissions.allows(Action.SEE_GROUP, caller.relations)
    return [name for name in of_other if everything or name in mine]


def names_by_user(session: Session, user_id: int | None = None) -> dict[int, list[str]]:
    """The names of the groups of each user, or of one user."""
    query = select(Membership.user_id, Group.name).join(Group, Group.id == Membership.group_id)

    def read(reader: Session) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for member, name in reader.execute(query.order_by(Group.name)):
            found.setdefault(member, []).append(name)
        return found

    everyone = remembered(session, "names of groups", (Membership, Group), read)
    return defaultdict(list, everyone if user_id is None else {user_id: list(everyone.get(user_id, ()))})


def records(session: Session, caller: Caller, name: str | None = None) -> list[answers.Group]:
    """Groups as the API shows them; only members and admins see more than name and title."""
    query = select(Group).order_by(Group.name)
    groups = session.execute(query.where(Group.name == name) if name else query).scalars().all()
    members, kept = _members(session), _kept(session)
    result = []
    for group in groups:
        record = answers.Group(group.name, group.title, kept[group.id])
        relations = caller.relations | ({Relation.MEMBER} if caller.name in members[group.id] else set())
        if permissions.allows(Action.SEE_GROUP, relations):
            gid = unix_ids.gid_of(group.id, group.gid)
            quota = size_text(group.quota_mib)
            record = replace(
                record, members=members[group.id], gid=gid, quota=quota, **limits.texts(group.limits)
            )
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
    """Per group the nodes (`n0`) and resources (`n0:1`) that are reserved for it."""
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
