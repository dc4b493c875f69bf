"""Groups, as the API shows and changes them."""

import time

from flask import Blueprint

from pit_protocol.answers.users import Group, GroupList, Removed
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import given_properties, head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.files import removed, trash, unix_ids
from pit_server.services.properties import read_all
from pit_server.services.users import groups

blueprint = Blueprint("groups", __name__, url_prefix="/groups")


@blueprint.get("")
@allow(Role.USER)
def listing() -> GroupList:
    with head().database.read() as session:
        return GroupList(groups.records(session, caller()))


@blueprint.get("/<name>")
@allow(Role.USER)
def show(name: str) -> Group:
    return _record(name)


@blueprint.put("/<name>")
@allow(Role.ADMIN)
def add(name: str) -> tuple[Group, int]:
    values = read_all("group", groups.PROPERTIES, given_properties(), is_new=True)
    with audited("add", f"group:{name}", describe_values(values)) as session:
        columns = {groups.COLUMNS.get(prop, prop): value for _, prop, value in values}
        groups.add(session, name, {**columns, "created_at": time.time()})
        removed.finish_moves(session, head().data)
        head().data.make_group(name)
    return _record(name), 201


@blueprint.patch("/<name>")
@allow(Role.ADMIN)
def change(name: str) -> Group:
    values = read_all("group", groups.PROPERTIES, given_properties())
    with audited("set", f"group:{name}", describe_values(values)) as session:
        group = groups.find(session, name, lock=True)
        for _, prop, value in values:
            if prop == "gid":
                unix_ids.check_free(session, value, group_id=group.id)
            setattr(group, groups.COLUMNS.get(prop, prop), value)
        session.flush()
    return _record(name)


@blueprint.delete("/<name>")
@allow(Role.ADMIN)
def remove(name: str) -> Removed:
    with audited("remove", f"group:{name}") as session:
        row = removed.remove_group(session, caller(), name, now=time.time())
    with head().database.write() as session:
        removed.finish_moves(session, head().data)
    head().quotas.forget(row.domain)
    return Removed(name, trash.record(row, head().settings.trash_days))


def _record(name: str) -> Group:
    with head().database.read() as session:
        return groups.records(session, caller(), groups.find(session, name).name)[0]
