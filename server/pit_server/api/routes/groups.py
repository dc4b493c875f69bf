"""Groups, as the API shows and changes them."""

import time

from flask import Blueprint
from msgspec import UNSET
from msgspec.structs import replace

from pit_protocol.answers.users import Group, GroupList, Removed
from pit_protocol.messages.request_bodies import Properties
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import given_properties, head
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.http.paging import PAGE, page
from pit_server.services.files import removed, trash
from pit_server.services.properties import read_all
from pit_server.services.scheduling import limits
from pit_server.services.users import groups
from pit_server.services.users.limits import Accounts

blueprint = Blueprint("groups", __name__, url_prefix="/groups")


@blueprint.get("")
@allow(Role.USER)
@describe(*PAGE)
def listing() -> GroupList:
    """All groups."""
    with head().database.read() as session:
        return GroupList(page(groups.records(session, caller()), lambda group: group.name))


@blueprint.get("/<name>")
@allow(Role.USER)
def show(name: str) -> Group:
    """One group."""
    return _record(name)


@blueprint.put("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties, status=(201,))
def add(name: str) -> tuple[Group, int]:
    """Add a group."""
    values = read_all("group", groups.PROPERTIES, given_properties(), is_new=True)
    with audited("add", f"group:{name}", describe_values(values)) as session:
        groups.set_properties(session, groups.add(session, name, {"created_at": time.time()}), values)
        removed.finish_moves(session, head().data)
        head().data.make_group(name)
    return _record(name), 201


@blueprint.patch("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties)
def change(name: str) -> Group:
    """Change properties of a group."""
    values = read_all("group", groups.PROPERTIES, given_properties())
    with audited("set", f"group:{name}", describe_values(values)) as session:
        groups.set_properties(session, groups.find(session, name, lock=True), values)
    return _record(name)


@blueprint.delete("/<name>")
@allow(Role.ADMIN)
def remove(name: str) -> Removed:
    """Remove a group without members."""
    with audited("remove", f"group:{name}") as session:
        row = removed.remove_group(session, caller(), name, now=time.time())
    with head().database.write() as session:
        removed.finish_moves(session, head().data)
    head().quotas.forget(row.domain)
    return Removed(name, trash.record(row, head().settings.trash_days))


def _record(name: str) -> Group:
    with head().database.read() as session:
        group = groups.find(session, name)
        record = groups.records(session, caller(), group.name)[0]
        if record.max_gpus is UNSET:
            return record
        mine = Accounts(session, head().settings).of_group(group.id)
        return replace(record, limits=limits.describe(session, mine, now=time.time()))
