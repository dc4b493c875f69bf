"""The whole at a glance: what `pit status` shows."""

from typing import Any

from flask import Blueprint

from pit_server.api.context import head, hold, number_argument, wait_argument
from pit_server.api.policy import Who, allow, caller
from pit_server.bells import STATUS
from pit_server.services import records

blueprint = Blueprint("overview", __name__)
DEFAULT_ROWS = 20


@blueprint.get("/status")
@allow(Who.USER)
def status() -> dict[str, Any]:
    limit = min(int(number_argument("limit", DEFAULT_ROWS)), records.MAX_ROWS)
    seen = int(number_argument("seen", 0))

    def look() -> tuple[dict[str, Any], bool]:
        # Before looking, so that what comes between is told once more rather than never.
        revision = head().bells.revision
        with head().database.read() as session:
            found = records.status(session, caller(), limit, head().scheduling.reasons)
        return {"revision": revision, **found}, revision > seen

    return hold(STATUS, wait_argument(), look)
