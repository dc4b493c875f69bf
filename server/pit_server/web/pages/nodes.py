"""Nodes: every GPU with its use and its holder, what is free, what is broken."""

import time

from flask import Blueprint, Response
from sqlalchemy.orm import Session

from pit_protocol.answers.nodes import Node
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs.records import job_records, usage
from pit_server.services.nodes import capacity
from pit_server.web import supply
from pit_server.web.rendering import render

blueprint = Blueprint("web_nodes", __name__)


@blueprint.get("/nodes")
@allow(Role.USER)
def show() -> Response:
    """All nodes."""
    now = time.time()
    with head().database.read() as session:
        nodes = capacity.records(session, caller(), now=now)
        status = job_records.status(session, caller(), head().delay_facts, 0, limit=1, most_running=1)
        used = _gpu_use(session, nodes, now)
    troubles = [
        f"{node.name} · {resource.trouble}"
        for node in nodes
        for resource in node.resources
        if resource.trouble
    ]
    return render(
        "nodes.html",
        nodes=nodes,
        used=used,
        supply=supply.count(nodes),
        troubles=troubles,
        totals=status.totals,
        next_start=status.waiting[0].starts if status.waiting else None,
    )


def _gpu_use(session: Session, nodes: list[Node], now: float) -> dict[int, float]:
    """Percent of GPU time of each job that holds a GPU, over the last samples."""
    holders = {resource.job for node in nodes for resource in node.resources if resource.job is not None}
    found = usage.means(session, holders, since=now - usage.RECENT_S)
    return {number: means.gpu_percent for number, means in found.items() if means.gpu_percent is not None}
