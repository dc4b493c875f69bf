"""The routes of workers: joining, a session, beats."""

import time

from flask import Blueprint, request
from msgspec.structs import replace

from pit_protocol.answers.nodes import Joined
from pit_protocol.messages.beat import MAX_BEAT, Hello, JoinRequest, OrderAction, Orders, Welcome, unpack_beat
from pit_protocol.problem import Problem
from pit_server import metrics
from pit_server.api.http.audited import audited
from pit_server.api.http.context import head, long_poll, message
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.background.node_watch import find_pace
from pit_server.services.nodes import beats, nodes, orders, worker_session
from pit_server.services.sites import sites
from pit_server.traffic import Traffic
from pit_server.wakeups import node_topic

blueprint = Blueprint("worker", __name__, url_prefix="/node")


@blueprint.post("/join")
@allow(Role.JOIN)
@describe(body=JoinRequest, status=(201,))
def join() -> tuple[Joined, int]:
    """Make the machine the node of a join code, or its agent the one of a site."""
    given = message(JoinRequest)
    if (site_id := caller().site_id) is not None:
        with audited("join", f"site:{caller().name}") as session:
            name, token = sites.join(session, site_id, caller().token_id, now=time.time())
        return Joined(name, head().cluster, token), 201
    with audited("join", f"node:{caller().name}") as session:
        nodes.note_host(session, _node_id(), given.host)
        name, token = nodes.join(session, _node_id(), caller().token_id, now=time.time())
    return Joined(name, head().cluster, token), 201


@blueprint.post("/session")
@allow(Role.NODE)
@describe(body=Hello)
def begin() -> Welcome:
    """Begin the session of a worker."""
    hello = message(Hello)
    node_id = _node_id()
    with head().database.write() as session:
        node = worker_session.begin(session, node_id, hello, now=time.time())
        welcome = Welcome(
            node.name, node.epoch, head().cluster, str(head().settings.root), head().settings.hold_s
        )
    head().node_watch.renew(node_id)
    return welcome


@blueprint.post("/beat")
@allow(Role.NODE, max_bytes=MAX_BEAT, traffic=Traffic.BEAT)
@describe(takes="application/vnd.pit.beat")
def beat() -> Orders:
    """Reports of a worker, and its orders."""
    received, chunks = unpack_beat(request.get_data())
    metrics.BEATS.inc()
    node_id = _node_id()
    has_room = beats.receive(
        head().database,
        head().data,
        caller(),
        received,
        chunks,
        settings=head().settings,
        now=time.time(),
    )
    if chunks:
        head().quotas.set_disk_full(not has_room)
    head().node_watch.renew(node_id)
    pace = find_pace(head().settings, head().node_watch.count_online())

    def look() -> tuple[Orders, bool]:
        with head().database.read() as session:
            found = orders.for_node(
                session, node_id, received.reports, head().data, head().order_specs, now=time.time()
            )
        # A dismissal is not news to wait for: the worker acts on it at once.
        dismisses = any(order.action is OrderAction.FORGET for order in found.orders)
        wanted, is_new = head().process_sessions.orders(node_id)
        return replace(found, sessions=wanted), is_new or dismisses or found.revision > received.seen

    answer = long_poll(node_topic(node_id), min(received.wait_s, pace.hold_s), look)
    return replace(answer, hold_s=pace.hold_s, report_s=pace.report_s)


def _node_id() -> int:
    node_id = caller().node_id
    if node_id is None:
        raise Problem("wrong_kind_of_token", "this route is for a node's token", status=403)
    return node_id
