"""Jobs: a table with its filter in the address."""

from urllib.parse import urlencode

from flask import Blueprint, Response, redirect, request

from pit_protocol.arrays.numbers import parse_job_name
from pit_protocol.states import JobState, Outcome
from pit_server.api.http.context import head, number_argument
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs.records import job_records
from pit_server.web.rendering import render

blueprint = Blueprint("web_jobs", __name__)
ROWS = 50
FILTERS = ("user", "state", "outcome", "node", "comment", "asc", "desc")
VIEWS: tuple[tuple[str, dict[str, str]], ...] = (  # the links above the table: a word, and its filter
    ("All", {}),
    ("Mine", {"user": "me"}),
    ("Running", {"state": JobState.RUNNING.value}),
    ("Waiting", {"state": JobState.WAITING.value}),
    ("Failed", {"outcome": Outcome.FAILED.value}),
    ("Lost", {"outcome": Outcome.LOST.value}),
    ("Succeeded", {"outcome": Outcome.SUCCEEDED.value}),
)


@blueprint.get("/jobs")
@allow(Role.USER)
def show() -> Response:
    """The jobs that match; a number in the search box leads to its job."""
    search = request.args.get("q", "").strip()
    if parse_job_name(search.lstrip("#")) is not None or search.lstrip("#").isdecimal():
        return redirect(f"/jobs/{search.lstrip('#')}", 303)  # type: ignore[return-value]
    given = {name: request.args[name] for name in FILTERS if request.args.get(name)}
    filters = dict(given)
    if search:
        filters |= _find(search)
    offset = int(number_argument("offset", 0))
    with head().database.read() as session:
        found = job_records.listing(
            session,
            caller(),
            {**filters, "limit": str(ROWS), "offset": str(offset)},
            head().delay_facts,
            head().data,
        )
    shown = {**given, **({"q": search} if search else {})}
    return render(
        "jobs.html",
        jobs=found.jobs,
        total=found.total,
        offset=offset,
        rows=ROWS,
        search=search,
        filters=given,
        views=[(word, address(wanted), wanted == given and not search) for word, wanted in VIEWS],
        earlier=address({**shown, "offset": str(offset + ROWS)}) if offset + ROWS < found.total else "",
        later=address({**shown, "offset": str(max(offset - ROWS, 0))}) if offset else "",
    )


def address(filters: dict[str, str]) -> str:
    return f"/jobs?{urlencode(filters)}" if filters else "/jobs"


def _find(search: str) -> dict[str, str]:
    """`user:anna` and `node:n0` are exact; anything else is part of a title."""
    kind, colon, name = search.partition(":")
    if colon and kind in ("user", "node", "state", "outcome") and name:
        return {kind: name}
    return {"title": f"%{search}%"}
