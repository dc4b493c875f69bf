"""The order of the queue."""

from flask import Blueprint

from pit_protocol.answers.queue import Queue
from pit_server.api.http.context import head, number_argument
from pit_server.api.http.description import LIMIT, describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.scheduling import queue_view

blueprint = Blueprint("queue", __name__)
DEFAULT_ROWS = 100


@blueprint.get("/queue")
@allow(Role.USER)
@describe(LIMIT)
def show() -> Queue:
    """The order in which the scheduler considers waiting jobs."""
    limit = int(number_argument("limit", DEFAULT_ROWS))
    last, estimating = head().scheduling.last, head().estimating
    with head().database.read() as session:
        return queue_view.show(session, caller(), last, estimating.ranges, estimating.errors, limit=limit)
