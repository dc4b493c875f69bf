"""Submitting, showing and stopping jobs."""

import time
from typing import Any

from flask import Blueprint, request
from sqlalchemy.exc import IntegrityError

from pit_protocol.states import JobState
from pit_protocol.submission import Submission
from pit_protocol.wire import from_json
from pit_server.api.context import given_properties, head, hold, json_body, number_argument, wait_argument
from pit_server.api.deeds import deed, told
from pit_server.api.policy import Who, allow, caller
from pit_server.bells import STATUS, job_bell
from pit_server.db.database import ring_after_commit
from pit_server.services import jobs, origins, records, variables
from pit_server.services.origins import Origin
from pit_server.services.properties import read_all
from pit_server.services.sources import Sources

blueprint = Blueprint("jobs", __name__, url_prefix="/jobs")


@blueprint.post("")
@allow(Who.USER)
def submit() -> tuple[dict[str, Any], int]:
    submission = from_json(Submission, json_body())
    head().room.demand_disk()
    wanted = jobs.check(submission, head().settings)
    origin = _origin(submission)

    def accept() -> tuple[int, bool]:
        with head().database.write() as session:
            home = head().settings.home
            return jobs.accept(session, caller(), submission, wanted, origin, home=home, now=time.time())

    try:
        number, is_new = accept()
    except IntegrityError:
        number, is_new = accept()  # the same one came in at the same time, and is there now
    return _record(number), 201 if is_new else 200


@blueprint.get("")
@allow(Who.USER)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return records.listing(session, caller(), request.args, head().scheduling.reasons)


@blueprint.get("/<int:number>")
@allow(Who.USER)
def show(number: int) -> dict[str, Any]:
    def look() -> tuple[dict[str, Any], bool]:
        record = _record(number)
        return record, record["state"] == JobState.ENDED

    return hold(job_bell(number), wait_argument(), look)


@blueprint.get("/<int:number>/variables")
@allow(Who.USER)
def compare_variables(number: int) -> dict[str, Any]:
    with head().database.read() as session:
        one = jobs.find(session, caller(), number)
        other = jobs.find(session, caller(), int(number_argument("to", 0)))
        return dict(variables.compare(head().settings.home, one, other))


@blueprint.post("/<int:number>/stop")
@allow(Who.USER)
def stop(number: int) -> dict[str, Any]:
    with deed("stop", f"job:{number}") as session:
        jobs.stop(session, caller(), number, now=time.time())
    return _record(number)


@blueprint.patch("/<int:number>")
@allow(Who.USER)
def change(number: int) -> dict[str, Any]:
    values = read_all("job", jobs.PROPERTIES, given_properties())
    with deed("set", f"job:{number}", told(values)) as session:
        job = jobs.find_to_change(session, caller(), number)
        for _, name, value in values:
            setattr(job, jobs.COLUMNS[name], value)
        session.flush()
        ring_after_commit(session, STATUS)
    return _record(number)


@blueprint.delete("/<int:number>")
@allow(Who.USER)
def remove(number: int) -> dict[str, Any]:
    with deed("remove", f"job:{number}") as session:
        jobs.remove(session, caller(), number, now=time.time())
    head().data.discard(head().data.job(number))
    return {"number": number}


@blueprint.put("/<int:number>/groups/<group>")
@allow(Who.USER)
def share(number: int, group: str) -> dict[str, Any]:
    with deed("share with group", f"job:{number}", group) as session:
        jobs.share(session, caller(), number, group)
    return _record(number)


@blueprint.delete("/<int:number>/groups/<group>")
@allow(Who.USER)
def unshare(number: int, group: str) -> dict[str, Any]:
    with deed("unshare from group", f"job:{number}", group) as session:
        jobs.unshare(session, caller(), number, group)
    return _record(number)


def _origin(submission: Submission) -> Origin:
    """Where the snapshot comes from; git is asked outside of any session."""
    sources = Sources(head().data, head().settings)
    if submission.snapshot is not None:
        return origins.of_submission(sources, caller().user_id or 0, submission.snapshot)
    with head().database.read() as session:
        job = jobs.find(session, caller(), submission.reruns or 0)
        number, found, state = job.id, origins.origin_of(job), job.state
    return origins.of_job(sources, number, found, state)


def _record(number: int) -> dict[str, Any]:
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        result = jobs.result_text(head().data, job)
        return records.record(session, caller(), job, result, head().scheduling.reasons)
