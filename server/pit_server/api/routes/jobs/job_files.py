"""What a job leaves behind: its log and its directory."""

from collections.abc import Iterator

from flask import Blueprint, Response, request

from pit_protocol.answers.jobs import LOG_ENDED, LOG_OFFSET, DiffStat, JobUsage, LogBatch, LogMatches
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem
from pit_server.api.http.context import head, job_argument, long_poll, number_argument, wait_argument
from pit_server.api.http.description import OFFSET, WAIT, Param, describe, flag
from pit_server.api.http.guard import Role, allow, caller
from pit_server.db.models import Job
from pit_server.services.jobs import jobs
from pit_server.services.jobs.arrays import elements
from pit_server.services.jobs.records import delays, usage
from pit_server.services.logs import array_log, log_merge, log_search, raw_log
from pit_server.services.logs.log_text import LogText
from pit_server.services.snapshots import code
from pit_server.services.snapshots.sources import Sources
from pit_server.store.files import archive
from pit_server.traffic import Traffic
from pit_server.wakeups import job_topic

LOG = (
    Param("process", "only this one, by rank (`1`) or by group and index (`0.1`)"),
    Param("tail", "only the last lines", "integer"),
    Param("since", "only from this time on", "number"),
)
blueprint = Blueprint("job_files", __name__, url_prefix="/jobs/<job:number>")


@blueprint.get("/log")
@allow(Role.USER, traffic=Traffic.LOG)
@describe(
    WAIT,
    Param("cursor", "of the batch before; none: from the beginning"),
    *LOG,
    Param("unfinished", "`no`: without lines that have no end yet", values=("yes", "no")),
)
def log(number: int) -> LogBatch:
    """A batch of lines of a job's log."""
    query = log_merge.Query(
        cursor=request.args.get("cursor", ""),
        process=request.args.get("process", ""),
        tail=_tail(),
        since=number_argument("since", 0.0) or None,
        unfinished=request.args.get("unfinished") != "no",
    )

    def look() -> tuple[LogBatch, bool]:
        with head().database.read() as session:
            job = jobs.find(session, caller(), number)
            delay = delays.find_all(session, caller(), [job], head().delay_facts).get(number)
            read = log_merge.read if job.array_size is None else array_log.read
            batch = read(session, job, head().data, query, delay)
        return batch, bool(batch.lines or batch.unfinished) or batch.ended or batch.more

    return long_poll(job_topic(number), wait_argument(), look)


@blueprint.get("/log/search")
@allow(Role.USER)
@describe(
    Param("text", "what the lines contain; case does not matter", required=True),
    Param("cursor", "of the answer before; none: from the beginning"),
    LOG[0],
)
def search_log(number: int) -> LogMatches:
    """Lines of a log that contain a text; takes a second at most."""
    text, cursor = request.args.get("text", ""), request.args.get("cursor", "")
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        return log_search.search(session, job, head().data, text, cursor, request.args.get("process", ""))


@blueprint.get("/log/raw")
@allow(Role.USER, traffic=Traffic.LOG)
@describe(WAIT, OFFSET, *LOG, sends=("application/octet-stream",))
def show_raw_log(number: int) -> Response:
    """The output of one process, byte by byte."""
    query = raw_log.Query(
        process=request.args.get("process", ""),
        offset=int(number_argument("offset", 0)) if "offset" in request.args else None,
        tail=_tail(),
        since=number_argument("since", 0.0) or None,
    )

    def look() -> tuple[raw_log.Part, bool]:
        with head().database.read() as session:
            part = raw_log.read(session, jobs.find(session, caller(), number), head().data, query)
        return part, bool(part.data) or part.ended

    part = long_poll(job_topic(number), wait_argument(), look)
    headers = {
        LOG_OFFSET: str(part.next),
        LOG_ENDED: "yes" if part.ended else "no",
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": "attachment",
    }
    return Response(part.data, mimetype="application/octet-stream", headers=headers)


@blueprint.get("/usage")
@allow(Role.USER)
def show_usage(number: int) -> JobUsage:
    """What each process used, over the whole run."""
    with head().database.read() as session:
        return JobUsage(usage.history(session, jobs.find(session, caller(), number).id))


@blueprint.get("/code")
@allow(Role.USER, traffic=Traffic.TRANSFER)
@describe(sends=("application/x-tar",))
def download_code(number: int) -> Response:
    """The exact tree of a job's code as a tar."""
    headers = {"Content-Disposition": f'attachment; filename="job-{job_name(number)}-code.tar"'}
    return Response(code.archive(_sources(), _code(number)), mimetype="application/x-tar", headers=headers)


@blueprint.get("/diff")
@allow(Role.USER, traffic=Traffic.TRANSFER)
@describe(
    Param("to", "the number of the other job"),
    flag("stat", "only which files, and how many lines"),
    Param("binary", "`no`: a binary file is one line", values=("yes", "no")),
    sends=("text/x-diff",),
)
def diff(number: int) -> Response | DiffStat:
    """What was not committed, or what differs between two jobs."""
    other = _code(job_argument("to")) if "to" in request.args else None
    if request.args.get("stat") == "yes":
        return code.stat(_sources(), _code(number), other)
    binary = request.args.get("binary") != "no"
    return Response(code.patch(_sources(), _code(number), other, binary=binary), mimetype="text/x-diff")


@blueprint.get("/archive")
@allow(Role.USER, traffic=Traffic.TRANSFER)
@describe(OFFSET, sends=("application/gzip",))
def download(number: int) -> Response:
    """The directory of a job with its log, as a tar."""
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        directory = head().data.attempt(job.id, job.attempt)
        parts = [job.id, *elements.list_begun(session, job)]
    if not directory.is_dir():
        raise Problem(
            "no_directory",
            f"job {job_name(number)} has no directory",
            f"`pit show {job_name(number)}` says how far it came",
            status=404,
        )
    name = f"job-{job_name(number)}"
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar.gz"'}

    database, data = head().database, head().data

    def log_files() -> Iterator[bytes]:
        # Beside the directory, where no file of the job can have this name.
        for part in parts:
            with database.read() as session:
                row = session.get_one(Job, part)
                log, created_at = LogText(session, row, data), row.created_at
            yield from archive.text_file(f"job-{job_name(part)}.log", log.size(), log.lines(), created_at)

    # An ended job's archive is the same each time, so a client that lost the connection gets the rest.
    stream = archive.stream(directory, name, log_files())
    pieces = archive.skip_bytes(stream, int(number_argument("offset", 0)))
    return Response(pieces, mimetype="application/gzip", headers=headers)


def _tail() -> int | None:
    return min(int(number_argument("tail", 0)), log_merge.MAX_TAIL) or None


def _code(number: int) -> code.Code:
    with head().database.read() as session:
        return code.find(session, caller(), number, head().settings.home)


def _sources() -> Sources:
    return Sources(head().data, head().settings)
