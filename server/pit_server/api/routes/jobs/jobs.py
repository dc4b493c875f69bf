"""Submitting, showing and stopping jobs."""

import time

from flask import Blueprint, request
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from pit_protocol.answers.jobs import ElementList, JobList, JobRecord, JobRemoved, VariablesDiff
from pit_protocol.arrays.numbers import array_of, job_name
from pit_protocol.messages.request_bodies import Properties
from pit_protocol.messages.submission import Submission
from pit_protocol.states import JobState
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import (
    given_properties,
    head,
    job_argument,
    long_poll,
    message,
    wait_argument,
)
from pit_server.api.http.description import LIMIT, WAIT, Param, describe, flag
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.http.paging import PAGE, page
from pit_server.services.files import removed, trash
from pit_server.services.jobs import jobs, user_variables
from pit_server.services.jobs.arrays import progress
from pit_server.services.jobs.records import job_records
from pit_server.services.jobs.submission import accept_submission, check_submission
from pit_server.services.properties import read_all
from pit_server.services.snapshots import origins
from pit_server.services.snapshots.origins import Origin
from pit_server.services.snapshots.sources import Sources
from pit_server.traffic import Traffic
from pit_server.wakeups import end_topic, job_topic

FILTERS = (
    Param("user", "of this user; `me` is the caller"),
    Param("state", "in this state"),
    Param("outcome", "with this outcome"),
    Param("title", "whose title matches a pattern with % and _"),
    Param("comment", "whose comment matches such a pattern"),
    Param("node", "with processes on this node"),
    Param("since", "submitted at this time or later", "number"),
    Param("till", "submitted before this time", "number"),
    Param("asc", "in this order", values=tuple(job_records.ORDERS)),
    Param("desc", "in this order, reversed", values=tuple(job_records.ORDERS)),
    Param("columns", "also these: `result`, `env.NAME`"),
    LIMIT,
    Param("offset", "how many to skip", "integer"),
)
blueprint = Blueprint("jobs", __name__, url_prefix="/jobs")


@blueprint.post("")
@allow(Role.USER)
@describe(body=Submission, status=(200, 201))
def submit() -> tuple[JobRecord, int]:
    """Submit a job; 200 if the same key was sent before."""
    submission = message(Submission)
    head().quotas.require_disk_space()
    head().job_space.require(caller().user_id or 0)
    wanted = check_submission(submission, head().settings)
    origin = _origin(submission)

    def accept() -> tuple[int, bool]:
        with head().database.write() as session:
            settings = head().settings
            return accept_submission(
                session, caller(), submission, wanted, origin, settings=settings, now=time.time()
            )

    try:
        number, is_new = accept()
    except IntegrityError:
        number, is_new = accept()  # the same key came twice at the same time: the other one has won
    return _record(number), 201 if is_new else 200


@blueprint.get("")
@allow(Role.USER)
@describe(*FILTERS)
def listing() -> JobList:
    """Jobs by filter, order and page."""
    with head().database.read() as session:
        return job_records.listing(session, caller(), request.args, head().delay_facts, head().data)


@blueprint.get("/<job:number>")
@allow(Role.USER, traffic=Traffic.HELD)
@describe(WAIT, Param("delay", "what the caller was told of: another delay is news as well"))
def show(number: int) -> JobRecord:
    """One job; can wait for its end."""
    known = request.args.get("delay")  # what the caller was told of; None: the end alone is news

    def look() -> tuple[JobRecord, bool]:
        record = _record(number)
        return record, record.state == JobState.ENDED or known != record.delay

    def look_at_state() -> tuple[None, bool]:
        with head().database.read() as session:
            return None, jobs.find_state(session, caller(), number) is JobState.ENDED

    wait_s = wait_argument()
    if known is not None:
        return long_poll(job_topic(number), wait_s, look)
    if wait_s:
        long_poll(end_topic(number), wait_s, look_at_state)  # a record takes many statements
    return _record(number)


@blueprint.get("/<job:number>/elements")
@allow(Role.USER)
@describe(flag("failed", "only those that failed, were lost or timed out"), *PAGE)
def list_elements(number: int) -> ElementList:
    """Elements of an array that have begun."""
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        found = progress.list_elements(session, job, failed=request.args.get("failed") == "yes")
    return replace(found, elements=page(found.elements, lambda element: element.index or 0))


@blueprint.get("/<job:number>/variables")
@allow(Role.USER)
@describe(Param("to", "the number of the other job", required=True))
def compare_variables(number: int) -> VariablesDiff:
    """How the secret variables of two jobs differ, by name."""
    with head().database.read() as session:
        one = jobs.find(session, caller(), array_of(number))
        other = jobs.find(session, caller(), array_of(job_argument("to")))
        return user_variables.compare(head().settings.home, one, other)


@blueprint.post("/<job:number>/stop")
@allow(Role.USER)
def stop(number: int) -> JobRecord:
    """Ask a job to stop."""
    with audited("stop", f"job:{job_name(number)}") as session:
        jobs.stop(session, caller(), number, now=time.time())
    return _record(number)


@blueprint.patch("/<job:number>")
@allow(Role.USER)
@describe(body=Properties)
def change(number: int) -> JobRecord:
    """Change properties of a job."""
    values = read_all("job", jobs.PROPERTIES, given_properties())
    with audited("set", f"job:{job_name(number)}", describe_values(values)) as session:
        jobs.set_properties(session, caller(), number, values, head().settings, now=time.time())
    return _record(number)


@blueprint.delete("/<job:number>")
@allow(Role.USER)
def remove(number: int) -> JobRemoved:
    """Move an ended job to the trash."""
    with audited("remove", f"job:{job_name(number)}") as session:
        row = removed.remove_job(session, caller(), number, now=time.time())
    return JobRemoved(number, trash.record(row, head().settings.trash_days))


@blueprint.put("/<job:number>/groups/<group>")
@allow(Role.USER)
def share(number: int, group: str) -> JobRecord:
    """Share a job with a group."""
    with audited("share with group", f"job:{job_name(number)}", group) as session:
        jobs.share(session, caller(), number, group)
    return _record(number)


@blueprint.delete("/<job:number>/groups/<group>")
@allow(Role.USER)
def unshare(number: int, group: str) -> JobRecord:
    """Stop sharing a job with a group."""
    with audited("unshare from group", f"job:{job_name(number)}", group) as session:
        jobs.unshare(session, caller(), number, group)
    return _record(number)


def _origin(submission: Submission) -> Origin:
    """Where the snapshot comes from; git runs outside of any database session."""
    sources = Sources(head().data, head().settings)
    if submission.snapshot is not None:
        return origins.of_submission(
            sources, caller().user_id or 0, submission.snapshot, only_if_here=submission.only_if_here
        )
    with head().database.read() as session:
        job = jobs.find(session, caller(), submission.reruns or 0)
        number, found, state = job.id, origins.origin_of(job), job.state
    return origins.of_job(sources, number, found, state)


def _record(number: int) -> JobRecord:
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        result = jobs.result_text(head().data, job.id, job.attempt)
        return job_records.record(session, caller(), job, result, head().delay_facts)
