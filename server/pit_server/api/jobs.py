"""Submitting, showing and stopping jobs."""

import time
from typing import Any

from flask import Blueprint, request
from sqlalchemy.exc import IntegrityError

from pit_protocol.states import JobState
from pit_protocol.submission import Submission
from pit_protocol.wire import from_json
from pit_server.api.context import head, hold, json_body, wait_argument
from pit_server.api.policy import Who, allow, caller
from pit_server.bells import job_bell
from pit_server.services import jobs, records

blueprint = Blueprint("jobs", __name__, url_prefix="/jobs")


@blueprint.post("")
@allow(Who.USER)
def submit() -> tuple[dict[str, Any], int]:
    submission = from_json(Submission, json_body())
    wanted = jobs.check(submission, head().settings)
    limit = head().settings.max_diff_mib

    def accept() -> tuple[int, bool]:
        with head().database.write() as session:
            return jobs.accept(
                session, caller(), submission, wanted, head().data, max_diff_mib=limit, now=time.time()
            )

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


@blueprint.post("/<int:number>/stop")
@allow(Who.USER)
def stop(number: int) -> dict[str, Any]:
    with head().database.write() as session:
        jobs.stop(session, caller(), number, now=time.time())
    return _record(number)


def _record(number: int) -> dict[str, Any]:
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        return records.record(session, job, jobs.result_text(head().data, job), head().scheduling.reasons)
