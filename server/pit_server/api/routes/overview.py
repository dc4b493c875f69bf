"""An overview of all jobs: what `pit status` shows."""

from flask import Blueprint

from pit_protocol.answers.jobs import Status
from pit_server.api.http.context import head, long_poll, number_argument, wait_argument
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs import records
from pit_server.traffic import Traffic
from pit_server.wakeups import STATUS

blueprint = Blueprint("overview", __name__)
DEFAULT_ROWS = 20


@blueprint.get("/status")
@allow(Role.USER, traffic=Traffic.HELD)
def status() -> Status:
    limit = min(int(number_argument("limit", DEFAULT_ROWS)), records.MAX_ROWS)
    seen = int(number_argument("seen", 0))

    def look() -> tuple[Status, bool]:
        # Read first: a change in between is then reported once more rather than never.
        revision = head().wakeups.revision
        with head().database.read() as session:
            found = records.status(session, caller(), limit, head().scheduling.reasons, revision)
        return found, revision > seen

    return long_poll(STATUS, wait_argument(), look)
