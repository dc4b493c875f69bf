"""Nodes, as people see and change them."""

import time

from flask import Blueprint, request

from pit_protocol.answers.nodes import Node, NodeAdded, NodeList, NodeRemoved
from pit_protocol.messages.request_bodies import Properties
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import given_properties, head
from pit_server.api.http.description import describe, flag
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.http.paging import PAGE, page
from pit_server.services.nodes import capacity, nodes
from pit_server.services.nodes.properties import PROPERTIES
from pit_server.services.properties import read_all
from pit_server.services.users import groups

blueprint = Blueprint("nodes", __name__, url_prefix="/nodes")


@blueprint.get("")
@allow(Role.USER)
@describe(*PAGE)
def listing() -> NodeList:
    """All nodes with their resources."""
    with head().database.read() as session:
        found = capacity.records(session, caller(), now=time.time())
    return NodeList(page(found, lambda node: node.name))


@blueprint.get("/<name>")
@allow(Role.USER)
def show(name: str) -> Node:
    """One node."""
    return _record(name)


@blueprint.put("/<name>")
@allow(Role.ADMIN)
@describe(flag("again", "make a new join code for a known node"), body=Properties, status=(201,))
def add(name: str) -> tuple[NodeAdded, int]:
    """Add a node; the answer has its join code."""
    again = request.args.get("again") == "yes"
    values = read_all("node", PROPERTIES, given_properties(), is_new=True)
    now = time.time()
    with audited("add again" if again else "add", f"node:{name}", describe_values(values)) as session:
        node = nodes.find(session, name, lock=True) if again else nodes.add(session, name, now=now)
        nodes.set_properties(session, node, values, now=now)
        good_for_s = head().settings.join_code_s
        code, expires_at = nodes.make_join_code(session, node, now=now, good_for_s=good_for_s)
    return NodeAdded(_record(name), code, expires_at), 201


@blueprint.patch("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties)
def change(name: str) -> Node:
    """Change properties of a node."""
    values = read_all("node", PROPERTIES, given_properties())
    with audited("set", f"node:{name}", describe_values(values)) as session:
        nodes.set_properties(session, nodes.find(session, name, lock=True), values, now=time.time())
    return _record(name)


@blueprint.delete("/<name>")
@allow(Role.ADMIN)
@describe(flag("lost", "although processes ran there: their jobs are lost"))
def remove(name: str) -> NodeRemoved:
    """Remove a node."""
    now = time.time()
    if request.args.get("lost") != "yes":
        with audited("remove", f"node:{name}") as session:
            nodes.remove(session, nodes.find(session, name, lock=True), now=now)
        return NodeRemoved(name, [])
    with audited("remove as lost", f"node:{name}") as session:
        numbers = nodes.give_up(session, name, now=now, actor=caller().actor)
    return NodeRemoved(name, numbers)


@blueprint.put("/<name>/groups/<group>")
@blueprint.put("/<name>/resources/<int:index>/groups/<group>")
@allow(Role.ADMIN)
def keep(name: str, group: str, index: int | None = None) -> Node:
    """Reserve a node, or one resource of it, for a group."""
    with audited("keep for group", _thing(name, index), group) as session:
        nodes.keep(session, nodes.find(session, name), groups.find(session, group), index)
    return _record(name)


@blueprint.delete("/<name>/groups/<group>")
@blueprint.delete("/<name>/resources/<int:index>/groups/<group>")
@allow(Role.ADMIN)
def release(name: str, group: str, index: int | None = None) -> Node:
    """End a reservation for a group."""
    with audited("release from group", _thing(name, index), group) as session:
        nodes.release(session, nodes.find(session, name), groups.find(session, group), index)
    return _record(name)


def _record(name: str) -> Node:
    with head().database.read() as session:
        return capacity.records(session, caller(), nodes.find(session, name).name, now=time.time())[0]


def _thing(name: str, index: int | None) -> str:
    return f"node:{name}" if index is None else f"node:{name}:{index}"
