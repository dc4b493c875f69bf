"""Sessions in running processes, as WebSockets: of users, and of the workers that they are connected with."""

import time

from flask import Blueprint, g, request

from pit_protocol.arrays.numbers import job_name
from pit_protocol.messages.beat import SessionKind
from pit_protocol.problem import Problem
from pit_protocol.sessions.websocket import WebSocket
from pit_server.api.http.context import address, head
from pit_server.api.http.description import Param, describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.http.upgrade import Upgrade, require_upgrade
from pit_server.services import audit
from pit_server.services.sessions import rights
from pit_server.traffic import Traffic

PROCESS = Param("process", "its rank or `GROUP.INDEX`; left out: the first that runs")
blueprint = Blueprint("process_sessions", __name__)


@blueprint.get("/jobs/<job:number>/exec")
@allow(Role.USER, traffic=Traffic.SESSION)
@describe(PROCESS, sends=("application/octet-stream",), status=(101,))
def execute(number: int) -> Upgrade:
    """A WebSocket that runs a command in a process."""
    return _open(number, SessionKind.EXEC)


@blueprint.get("/jobs/<job:number>/forward")
@allow(Role.USER, traffic=Traffic.SESSION)
@describe(PROCESS, sends=("application/octet-stream",), status=(101,))
def forward(number: int) -> Upgrade:
    """A WebSocket that connects to ports of a process."""
    return _open(number, SessionKind.FORWARD)


@blueprint.get("/node/sessions/<session_id>")
@allow(Role.NODE, traffic=Traffic.SESSION)
@describe(sends=("application/octet-stream",), status=(101,))
def attach(session_id: str) -> Upgrade:
    """The worker's side of a session that it was ordered to open."""
    require_upgrade()
    node_id = caller().node_id
    if node_id is None:
        raise Problem("wrong_kind_of_token", "this route is for a node's token", status=403)
    sessions = head().process_sessions
    session = sessions.take(session_id, node_id)
    return Upgrade(lambda websocket: sessions.attach(session, websocket))


def _open(number: int, kind: SessionKind) -> Upgrade:
    require_upgrade()
    name = request.args.get("process")
    with head().database.write() as session:
        target = rights.find_target(session, caller(), number, name)
        audit.note(
            session,
            caller().actor,
            kind,
            f"job:{job_name(number)}",
            now=time.time(),
            detail=f"process {target.name} on {target.node}",
            address=address(),
        )

    def check() -> None:
        g.recheck_access()
        with head().database.read() as session:
            rights.require(session, caller(), number)

    def serve(websocket: WebSocket) -> None:
        head().process_sessions.serve(websocket, target, kind, check)

    return Upgrade(serve)
