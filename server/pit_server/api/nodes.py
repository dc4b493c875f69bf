"""Nodes, as users see them and as their workers speak for them."""

import time
from typing import Any

from flask import Blueprint, request

from pit_protocol.beat import MAX_BEAT, Hello, Orders, Welcome, Wish, unpack_beat
from pit_protocol.problem import Problem
from pit_protocol.wire import from_json, to_json
from pit_server.api.context import MAX_WAIT_S, head, hold, json_body
from pit_server.api.policy import Who, allow, caller
from pit_server.bells import node_bell
from pit_server.services import beats, nodes, orders

blueprint = Blueprint("nodes", __name__, url_prefix="/nodes")
worker_blueprint = Blueprint("worker", __name__, url_prefix="/node")


@blueprint.get("")
@allow(Who.USER)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return {"nodes": nodes.records(session)}


@blueprint.get("/<name>")
@allow(Who.USER)
def show(name: str) -> dict[str, Any]:
    with head().database.read() as session:
        nodes.find_node(session, name)
        return nodes.records(session, name)[0]


@worker_blueprint.post("/session")
@allow(Who.NODE)
def begin() -> Any:
    hello = from_json(Hello, json_body())
    node_id = _node_id()
    with head().database.write() as session:
        node = nodes.begin_session(session, node_id, hello, now=time.time())
        welcome = Welcome(
            node.name, node.epoch, head().cluster, str(head().settings.root), head().settings.hold_s
        )
    head().watching.hear(node_id)
    return to_json(welcome)


@worker_blueprint.post("/beat")
@allow(Who.NODE, max_bytes=MAX_BEAT)
def beat() -> Any:
    received, chunks = unpack_beat(request.get_data())
    node_id = _node_id()
    beats.receive(head().database, head().data, caller(), received, chunks, now=time.time())
    head().watching.hear(node_id)

    def look() -> tuple[Orders, bool]:
        with head().database.read() as session:
            found = orders.for_node(session, node_id, received.reports, head().data, head().settings)
        # Waiting would not make a dismissal any newer.
        dismisses = any(order.wish is Wish.FORGET for order in found.orders)
        return found, dismisses or found.revision > received.seen

    return to_json(hold(node_bell(node_id), min(received.wait_s, MAX_WAIT_S), look))


def _node_id() -> int:
    node_id = caller().node_id
    if node_id is None:
        raise Problem("wrong_kind_of_token", "this route is for a node's token", status=403)
    return node_id
