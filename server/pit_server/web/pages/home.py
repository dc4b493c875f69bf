"""Home: what my jobs do, what is free for me now, and my limits."""

import time

from flask import Blueprint, Response

from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs.records import job_records
from pit_server.services.nodes import capacity
from pit_server.services.scheduling import limits
from pit_server.services.users.limits import Accounts
from pit_server.web import supply
from pit_server.web.rendering import render

blueprint = Blueprint("web_home", __name__)
ROWS = 10


@blueprint.get("/")
@allow(Role.USER)
def show() -> Response:
    """My jobs, what is free, my limits."""
    with head().database.read() as session:
        status = job_records.status(
            session, caller(), head().delay_facts, 0, limit=ROWS, most_running=ROWS, mine_only=True
        )
        nodes = capacity.records(session, caller(), now=time.time())
        mine = Accounts(session, head().settings).of_user(caller().user_id or 0)
        held = limits.describe(session, mine, now=time.time())
    return render("home.html", status=status, supply=supply.count(nodes), nodes=nodes, limits=held)
