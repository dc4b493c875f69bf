"""Groups, as the API shows and changes them."""

import time
from typing import Any

from flask import Blueprint

from pit_server.api.context import given_properties, head
from pit_server.api.deeds import deed, told
from pit_server.api.policy import Who, allow, caller
from pit_server.services import accounts, groups
from pit_server.services.properties import read_all

blueprint = Blueprint("groups", __name__, url_prefix="/groups")


@blueprint.get("")
@allow(Who.USER)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return {"groups": groups.records(session, caller())}


@blueprint.get("/<name>")
@allow(Who.USER)
def show(name: str) -> dict[str, Any]:
    with head().database.read() as session:
        return groups.records(session, caller(), groups.find(session, name).name)[0]


@blueprint.put("/<name>")
@allow(Who.ADMIN)
def add(name: str) -> tuple[dict[str, Any], int]:
    values = read_all("group", groups.PROPERTIES, given_properties(), is_new=True)
    with deed("add", f"group:{name}", told(values)) as session:
        columns = {groups.COLUMNS.get(prop, prop): value for _, prop, value in values}
        groups.add(session, name, columns, now=time.time())
        head().data.make_group(name)
    return show(name), 201


@blueprint.patch("/<name>")
@allow(Who.ADMIN)
def change(name: str) -> dict[str, Any]:
    values = read_all("group", groups.PROPERTIES, given_properties())
    with deed("set", f"group:{name}", told(values)) as session:
        group = groups.find(session, name, lock=True)
        for _, prop, value in values:
            if prop == "gid":
                accounts.check_free(session, value, group_id=group.id)
            setattr(group, groups.COLUMNS.get(prop, prop), value)
        session.flush()
    return show(name)


@blueprint.delete("/<name>")
@allow(Who.ADMIN)
def remove(name: str) -> dict[str, Any]:
    with deed("remove", f"group:{name}") as session:
        groups.remove(session, name)
    head().data.discard(head().data.group(name))
    return {"name": name}
