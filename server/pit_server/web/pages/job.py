"""One job: its story, processes, log, charts, code, files and results."""

from typing import Any

from flask import Blueprint, Response

from pit_protocol.answers.jobs import JobEvent, JobRecord
from pit_protocol.arrays.numbers import job_name
from pit_protocol.job_options import OPTIONS
from pit_protocol.states import JobState
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs import jobs
from pit_server.services.jobs.records import job_records
from pit_server.services.logs.log_text import LogText
from pit_server.services.scheduling.why import explanation
from pit_server.services.users import access, permissions
from pit_server.services.users.permissions import Action
from pit_server.store.files import archive
from pit_server.traffic import Traffic
from pit_server.web.rendering import HEADERS, render

blueprint = Blueprint("web_job", __name__, url_prefix="/jobs/<job:number>")
MAX_STORY = 30  # events that are shown; of more, the last ones
PIECE = 64 * 1024


@blueprint.get("")
@allow(Role.USER)
def show(number: int) -> Response:
    """The job with its log."""
    return show_tab(number, "log")


def show_tab(number: int, tab: str, **values: Any) -> Response:
    """A tab of the job's page; all have the same frame."""
    facts = explanation.Facts(head().scheduling.last, head().delay_facts, head().data, head().settings)
    with head().database.read() as session:
        row = jobs.find(session, caller(), number)
        result = jobs.result_text(head().data, row.id, row.attempt)
        job = job_records.record(session, caller(), row, result, head().delay_facts)
        why, _ = explanation.explain(session, caller(), number, facts)
        relations = access.relations_to_job(session, caller(), row)
        may_change = permissions.allows(Action.CHANGE_JOB, relations)
    return render(
        "job.html",
        job=job,
        name=job_name(number),
        why=why,
        tab=tab,
        may_change=may_change,
        is_live=job.state != JobState.ENDED,
        story=_story(job),
        options=[(option.label, text) for key, option in OPTIONS.items() if (text := job.options.shown(key))],
        current=[process for process in job.processes if process.attempt == job.attempt],
        **values,
    )


def _story(job: JobRecord) -> list[JobEvent]:
    """What happened to the job as a whole."""
    return [event for event in job.events if event.process is None][-MAX_STORY:]


@blueprint.get("/log.txt")
@allow(Role.USER, traffic=Traffic.TRANSFER)
def download_log(number: int) -> Response:
    """The whole log as a text."""
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        text = LogText(session, job, head().data)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="job-{job_name(number)}.log"'}
    pieces = archive.rechunk(text.lines(), PIECE)
    return Response(pieces, mimetype="text/plain", headers=headers)
