"""Cluster: whether we use what we have, who waits, who used it."""

import time

from flask import Blueprint, Response, request

from pit_protocol.durations import DAY_S, HOUR_S
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.nodes import capacity, utilisation
from pit_server.services.scheduling import queue_view
from pit_server.web import supply
from pit_server.web.rendering import render

blueprint = Blueprint("web_cluster", __name__)
WINDOWS = {"hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S}
QUEUE_ROWS = 20


@blueprint.get("/cluster")
@allow(Role.USER)
def show() -> Response:
    """Utilisation, queue and use over an hour, a day or a week."""
    window = request.args.get("over", "day")
    window = window if window in WINDOWS else "day"
    now = time.time()
    last, estimating = head().scheduling.last, head().estimating
    with head().database.read() as session:
        history = utilisation.history(session, WINDOWS[window], now=now)
        nodes = capacity.records(session, caller(), now=now)
        queue = queue_view.show(
            session, caller(), last, estimating.ranges, estimating.errors, limit=QUEUE_ROWS
        )
    return render(
        "cluster.html",
        history=history,
        window=window,
        windows=WINDOWS,
        supply=supply.count(nodes),
        queue=queue,
    )
