"""Why a job waits, or how it came where it is."""

import time

from flask import Blueprint, request
from msgspec.structs import replace

from pit_protocol.answers.why import RequestCheck, Why
from pit_server.api.http.context import head
from pit_server.api.http.description import Param, describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.scheduling.why import explanation, trial

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


@blueprint.get("/requests/check")
@allow(Role.USER)
@describe(Param("request", "such as `2:[8:a100]`", required=True))
def check_request() -> RequestCheck:
    """What a request means, and whether a job with it could start now."""
    text, last = request.args.get("request", ""), head().scheduling.last
    with head().database.read() as session:
        return trial.try_request(session, caller(), text, last, head().settings, now=time.time())
