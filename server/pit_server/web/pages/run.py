"""Run: a new job from a repository or an earlier job, with a request that is explained while it is typed."""

import time

from flask import Blueprint, Response, request

from pit_protocol.arrays.numbers import parse_job_name
from pit_protocol.job_options import PRIORITIES
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs.records import job_records
from pit_server.services.nodes import capacity
from pit_server.web import supply
from pit_server.web.rendering import render

blueprint = Blueprint("web_run", __name__)
RECENT = 30  # jobs whose code is offered


@blueprint.get("/run")
@allow(Role.USER)
def show() -> Response:
    """The form."""
    with head().database.read() as session:
        filters = {"user": "me", "limit": str(RECENT)}
        recent = job_records.listing(session, caller(), filters, head().delay_facts, head().data)
        nodes = capacity.records(session, caller(), now=time.time())
    return render(
        "run.html",
        recent=recent.jobs,
        supply=supply.count(nodes),
        priorities=PRIORITIES,
        chosen=parse_job_name(request.args.get("code", "")),
        wanted=request.args.get("request", ""),
    )
