"""What a job leaves behind: its log and its directory."""

from typing import Any

from flask import Blueprint, Response, request

from pit_protocol.problem import Problem
from pit_server.api.context import head, hold, number_argument, wait_argument
from pit_server.api.policy import Who, allow, caller
from pit_server.bells import job_bell
from pit_server.services import code, jobs, log_view, usage
from pit_server.services.sources import Sources
from pit_server.store import archive

blueprint = Blueprint("job_files", __name__, url_prefix="/jobs/<int:number>")


@blueprint.get("/log")
@allow(Who.USER)
def log(number: int) -> dict[str, Any]:
    tail = int(number_argument("tail", 0)) or None
    query = log_view.Query(
        cursor=request.args.get("cursor", ""),
        process=request.args.get("process", ""),
        tail=min(tail, log_view.MAX_TAIL) if tail else None,
        since=number_argument("since", 0.0) or None,
    )

    def look() -> tuple[dict[str, Any], bool]:
        with head().database.read() as session:
            batch = log_view.read(session, jobs.find(session, caller(), number), head().data, query)
        return batch, bool(batch["lines"]) or batch["ended"]

    return hold(job_bell(number), wait_argument(), look)


@blueprint.get("/usage")
@allow(Who.USER)
def show_usage(number: int) -> dict[str, Any]:
    with head().database.read() as session:
        return {"processes": usage.history(session, jobs.find(session, caller(), number).id)}


@blueprint.get("/code")
@allow(Who.USER)
def download_code(number: int) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="job-{number}-code.tar"'}
    return Response(code.archive(_sources(), _code(number)), mimetype="application/x-tar", headers=headers)


@blueprint.get("/diff")
@allow(Who.USER)
def diff(number: int) -> Response | dict[str, Any]:
    other = _code(int(number_argument("to", 0))) if "to" in request.args else None
    if request.args.get("stat") == "yes":
        return code.stat(_sources(), _code(number), other)
    return Response(code.patch(_sources(), _code(number), other), mimetype="text/x-diff")


@blueprint.get("/archive")
@allow(Who.USER)
def download(number: int) -> Response:
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        directory = head().data.attempt(job.id, job.attempt)
    if not directory.is_dir():
        raise Problem(
            "no_directory",
            f"job {number} has no directory",
            f"`pit show {number}` says how far it came",
            status=404,
        )
    name = f"job-{number}"
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar.gz"'}
    # An ended job's archive is the same each time: who lost the connection gets the rest of it.
    pieces = archive.skipped(archive.stream(directory, name), int(number_argument("offset", 0)))
    return Response(pieces, mimetype="application/gzip", headers=headers)


def _code(number: int) -> code.Code:
    with head().database.read() as session:
        return code.find(session, caller(), number, head().settings.home)


def _sources() -> Sources:
    return Sources(head().data, head().settings)
