"""Why a job waits, or how it came where it is."""

from flask import Blueprint
from msgspec.structs import replace

from pit_protocol.answers.why import Why
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.scheduling.why import explanation

blueprint = Blueprint("why", __name__)


@blueprint.get("/jobs/<job:number>/why")
@allow(Role.USER)
def show(number: int) -> Why:
    """Why a job waits, or how it came where it is."""
    facts = explanation.Facts(head().scheduling.last, head().delay_facts, head().data, head().settings)
    with head().database.read() as session:
        found, search = explanation.explain(session, caller(), number, facts)
    if found.queued is None or search is None:
        return found
    smaller, all_tried = search.run()
    return replace(found, queued=replace(found.queued, smaller=smaller, all_tried=all_tried))
