"""The routes of nodes without the head's files: they get and bring the directories of what runs there."""

import time
from typing import Any

from flask import Blueprint, Response, request

from pit_protocol.problem import Problem
from pit_server.api.context import head, json_body, number_argument
from pit_server.api.policy import Who, allow, caller
from pit_server.services import carrying
from pit_server.services.carrying import Load

blueprint = Blueprint("node_data", __name__, url_prefix="/node/attempts/<int:job>/<int:attempt>")
MAX_TREE = 2**63 - 1  # as large as the disk: what is written is written as it comes
MAX_GONE = 16 * 1024 * 1024


@blueprint.post("/token")
@allow(Who.NODE)
def issue(job: int, attempt: int) -> tuple[dict[str, Any], int]:
    load = _find(job, attempt)
    with head().database.write() as session:
        token = carrying.issue_token(session, caller(), load, now=time.time())
    return {"token": token}, 201


@blueprint.get("/tree")
@allow(Who.NODE)
def send(job: int, attempt: int) -> Response:
    load = _find(job, attempt)
    with load.open():
        pass  # a directory that is not there is a Problem, not a stream that breaks off
    return Response(carrying.stream(load), mimetype="application/x-tar")


@blueprint.put("/tree")
@allow(Who.NODE, max_bytes=MAX_TREE)
def receive(job: int, attempt: int) -> dict[str, Any]:
    load = _find(job, attempt, or_lost=True)
    head().room.demand_disk()
    return {"written": carrying.take_in(load, request.stream)}


@blueprint.post("/gone")
@allow(Who.NODE, max_bytes=MAX_GONE)
def remove(job: int, attempt: int) -> dict[str, Any]:
    paths = json_body()
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise Problem("bad_paths", "a list of paths is wanted", status=422)
    return {"removed": carrying.remove(_find(job, attempt, or_lost=True), paths)}


def _find(job: int, attempt: int, *, or_lost: bool = False) -> Load:
    epoch, now = int(number_argument("epoch", 0)), time.time()
    return carrying.find(
        head().database, caller(), head().data, job, attempt, epoch, now=now, or_lost=or_lost
    )
