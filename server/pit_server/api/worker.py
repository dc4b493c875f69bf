"""The routes of workers: joining, a session, beats."""

import time
from typing import Any

from flask import Blueprint, request

from pit_protocol.beat import MAX_BEAT, Hello, Orders, Welcome, Wish, unpack_beat
from pit_protocol.problem import Problem
from pit_protocol.wire import from_json, to_json
from pit_server.api.context import MAX_WAIT_S, head, hold, json_body
from pit_server.api.deeds import deed
from pit_server.api.policy import Who, allow, caller
from pit_server.bells import node_bell
from pit_server.services import beats, nodes, orders

blueprint = Blueprint("worker", __name__, url_prefix="/node")


@blueprint.post("/join")
@allow(Who.JOIN)
def join() -> tuple[dict[str, Any], int]:
    with deed("join", f"node:{caller().name}") as session:
        name, token = nodes.join(session, _node_id(), caller().token_id, now=time.time())
    return {"node": name, "cluster": head().cluster, "token": token}, 201


@blueprint.post("/session")
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


@blueprint.post("/beat")
@allow(Who.NODE, max_bytes=MAX_BEAT)
def beat() -> Any:
    received, chunks = unpack_beat(request.get_data())
    node_id = _node_id()
    has_room = beats.receive(head().database, head().data, caller(), received, chunks, now=time.time())
    if chunks:
        head().room.note_full(not has_room)
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
