"""Nodes, as people see and change them."""

import time
from typing import Any

from flask import Blueprint, request

from pit_server.api.context import given_properties, head
from pit_server.api.deeds import deed, told
from pit_server.api.policy import Who, allow, caller
from pit_server.services import groups, node_views, nodes
from pit_server.services.properties import read_all

blueprint = Blueprint("nodes", __name__, url_prefix="/nodes")


@blueprint.get("")
@allow(Who.USER)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return {"nodes": node_views.records(session, caller())}


@blueprint.get("/<name>")
@allow(Who.USER)
def show(name: str) -> dict[str, Any]:
    with head().database.read() as session:
        return node_views.records(session, caller(), nodes.find(session, name).name)[0]


@blueprint.put("/<name>")
@allow(Who.ADMIN)
def add(name: str) -> tuple[dict[str, Any], int]:
    again = request.args.get("again") == "yes"
    values = read_all("node", nodes.PROPERTIES, given_properties(), is_new=True)
    now = time.time()
    with deed("add again" if again else "add", f"node:{name}", told(values)) as session:
        node = nodes.find(session, name, lock=True) if again else nodes.add(session, name, now=now)
        nodes.set_properties(session, node, values, now=now)
        good_for_s = head().settings.join_code_s
        code, expires_at = nodes.make_join_code(session, node, now=now, good_for_s=good_for_s)
    return {"node": show(name), "join_code": code, "expires_at": expires_at}, 201


@blueprint.patch("/<name>")
@allow(Who.ADMIN)
def change(name: str) -> dict[str, Any]:
    values = read_all("node", nodes.PROPERTIES, given_properties())
    with deed("set", f"node:{name}", told(values)) as session:
        nodes.set_properties(session, nodes.find(session, name, lock=True), values, now=time.time())
    return show(name)


@blueprint.delete("/<name>")
@allow(Who.ADMIN)
def remove(name: str) -> dict[str, Any]:
    now = time.time()
    if request.args.get("lost") != "yes":
        with deed("remove", f"node:{name}") as session:
            nodes.remove(session, nodes.find(session, name, lock=True), now=now)
        return {"name": name, "lost": []}
    with deed("remove as lost", f"node:{name}") as session:
        numbers = nodes.give_up(session, name, now=now, actor=caller().actor)
    return {"name": name, "lost": numbers}


@blueprint.put("/<name>/groups/<group>")
@blueprint.put("/<name>/resources/<int:index>/groups/<group>")
@allow(Who.ADMIN)
def keep(name: str, group: str, index: int | None = None) -> dict[str, Any]:
    with deed("keep for group", _thing(name, index), group) as session:
        nodes.keep(session, nodes.find(session, name), groups.find(session, group), index)
    return show(name)


@blueprint.delete("/<name>/groups/<group>")
@blueprint.delete("/<name>/resources/<int:index>/groups/<group>")
@allow(Who.ADMIN)
def release(name: str, group: str, index: int | None = None) -> dict[str, Any]:
    with deed("release from group", _thing(name, index), group) as session:
        nodes.release(session, nodes.find(session, name), groups.find(session, group), index)
    return show(name)


def _thing(name: str, index: int | None) -> str:
    return f"node:{name}" if index is None else f"node:{name}:{index}"
