"""An overview of all jobs: what `pit status` shows."""

from flask import Blueprint, request
from msgspec.structs import replace

from pit_protocol.answers.jobs import Status
from pit_server.api.http.context import head, long_poll, number_argument, wait_argument
from pit_server.api.http.description import LIMIT, WAIT, Param, describe, flag
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs.records import job_records
from pit_server.traffic import Traffic
from pit_server.wakeups import STATUS

blueprint = Blueprint("overview", __name__)
DEFAULT_ROWS = 20


@blueprint.get("/status")
@allow(Role.USER, traffic=Traffic.HELD)
@describe(
    WAIT,
    LIMIT,
    Param("seen", "the revision that the caller has: wait for a newer one", "integer"),
    flag("mine", "only the caller's own jobs"),
)
def status() -> Status:
    """What runs, waits and ended last."""
    limit = min(int(number_argument("limit", DEFAULT_ROWS)), job_records.MAX_ROWS)
    most_running = limit if "limit" in request.args else None
    mine = request.args.get("mine") == "yes"
    seen = int(number_argument("seen", 0))

    def look() -> tuple[Status, bool]:
        # Read first: a change in between is then reported once more rather than never.
        revision = head().wakeups.revision
        with head().database.read() as session:
            found = job_records.status(
                session,
                caller(),
                head().delay_facts,
                revision,
                limit=limit,
                most_running=most_running,
                mine_only=mine,
            )
        found = replace(found, estimates=head().estimating.errors)
        if caller().is_admin and (notice := head().clock.describe()):
            found = replace(found, notices=[*found.notices, f"{notice}; `pit-head accept-clock` ends this"])
        return found, revision > seen

    return long_poll(STATUS, wait_argument(), look)
