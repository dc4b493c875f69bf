"""The routes of nodes that do not share the head's files: they fetch and return directories of attempts."""

import time

from flask import Blueprint, Response, request

from pit_protocol.answers.nodes import AttemptToken, FilesRemoved, FilesWritten
from pit_server.api.http.body import Body
from pit_server.api.http.context import head, message, number_argument
from pit_server.api.http.description import EPOCH, describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.files.domains import Place
from pit_server.services.nodes import staging
from pit_server.services.nodes.staging import AttemptFiles
from pit_server.traffic import Traffic

blueprint = Blueprint("node_data", __name__, url_prefix="/node/attempts/<job:job>/<int:attempt>")
MAX_TREE = 2**63 - 1  # the disk bounds it: the body is written as it comes
MAX_GONE = 16 * 1024 * 1024


@blueprint.post("/token")
@allow(Role.NODE)
@describe(EPOCH, status=(201,))
def issue(job: int, attempt: int) -> tuple[AttemptToken, int]:
    """A token by which an attempt reaches its user's data."""
    files = _find(job, attempt)
    with head().database.write() as session:
        token = staging.issue_token(session, caller(), files, now=time.time())
    return AttemptToken(token), 201


@blueprint.get("/tree")
@allow(Role.NODE, traffic=Traffic.TRANSFER)
@describe(EPOCH, sends=("application/x-tar",))
def send(job: int, attempt: int) -> Response:
    """The directory of an attempt as a sealed tar."""
    files = _find(job, attempt)
    with files.open():
        pass  # a directory that is not there is a Problem, not a stream that breaks off
    return Response(staging.stream(files), mimetype="application/x-tar")


@blueprint.put("/tree")
@allow(Role.NODE, max_bytes=MAX_TREE, traffic=Traffic.TRANSFER)
@describe(EPOCH, takes="application/x-tar")
def receive(job: int, attempt: int) -> FilesWritten:
    """Write what has changed in the directory of an attempt."""
    files = _find(job, attempt, brings=True)
    place = Place(files.label, files.directory, may_write=True)
    with head().quotas.reserve(place, request.content_length or 0) as reservation:
        return FilesWritten(staging.take_in(files, Body(reservation.take)))


@blueprint.post("/gone")
@allow(Role.NODE, max_bytes=MAX_GONE)
@describe(EPOCH, body=list[str])
def remove(job: int, attempt: int) -> FilesRemoved:
    """Remove what is gone from the directory of an attempt."""
    paths = message(list[str])
    return FilesRemoved(staging.remove(_find(job, attempt, brings=True), paths))


def _find(job: int, attempt: int, *, brings: bool = False) -> AttemptFiles:
    epoch = int(number_argument("epoch", 0))
    asked = head().database, caller(), head().data, job, attempt, epoch
    return staging.find(*asked, now=time.time(), brings=brings)
