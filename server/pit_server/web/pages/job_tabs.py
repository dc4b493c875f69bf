"""The other parts of a job's page: its code, its files, the results of its elements."""

from itertools import islice

from flask import Blueprint, Response, request

from pit_protocol.answers.jobs import ElementList
from pit_protocol.arrays.numbers import job_name
from pit_protocol.paths import name_fields, quote_path, unquote_path
from pit_protocol.problem import Problem
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.files import domains
from pit_server.services.jobs import jobs
from pit_server.services.jobs.arrays import progress
from pit_server.services.snapshots import code
from pit_server.services.snapshots.sources import Sources
from pit_server.store.files import listing
from pit_server.store.files.domain_files import Entry, Kind, parse_path
from pit_server.traffic import Traffic
from pit_server.web import plots
from pit_server.web.pages.job import show_tab

blueprint = Blueprint("web_job_tabs", __name__, url_prefix="/jobs/<job:number>")
MAX_PATCH = 512 * 1024  # bytes of a patch that are shown
MAX_FILES = 1_000  # of a directory that are shown
MAX_ROWS = 500  # elements in the table of results
CLASSES = {"+": "add", "-": "del", "@": "hunk"}


@blueprint.get("/code")
@allow(Role.USER, traffic=Traffic.TRANSFER)
def show_code(number: int) -> Response:
    """What was not committed."""
    with head().database.read() as session:
        found = code.find(session, caller(), number, head().settings.home)
    sources = Sources(head().data, head().settings)
    try:
        stat = code.stat(sources, found, None)
        lines, is_cut = _patch(sources, found)
    except Problem as problem:
        return show_tab(number, "code", stat=None, lines=[], is_cut=False, trouble=problem)
    return show_tab(number, "code", stat=stat, lines=lines, is_cut=is_cut, trouble=None)


def _patch(sources: Sources, found: code.Code) -> tuple[list[tuple[str, str]], bool]:
    """The lines of the patch with their classes, and whether it is longer than that."""
    data = b""
    for piece in code.patch(sources, found, None, binary=False):
        data += piece
        if len(data) > MAX_PATCH:
            break
    text = data[:MAX_PATCH].decode(errors="replace")
    return [(_class(line), line) for line in text.split("\n")], len(data) > MAX_PATCH


def _class(line: str) -> str:
    if line.startswith("diff --git"):
        return "file"
    return "" if line.startswith(("+++", "---")) else CLASSES.get(line[:1], "")


@blueprint.get("/files")
@allow(Role.USER, traffic=Traffic.TRANSFER)
def show_files(number: int) -> Response:
    """A directory of the job; `path` is percent-encoded once more, because names need not be UTF-8."""
    given, pattern = request.args.get("path", ""), request.args.get("glob", "").strip()
    path = parse_path(unquote_path(given).encode(errors="surrogateescape"))
    with head().database.read() as session:
        place = domains.find(session, caller(), head().data, f"job:{job_name(number)}")
    try:
        with place.open() as domain:
            found = listing.match(domain, path, pattern) if pattern else listing.walk(domain, path)
            entries = list(islice(found, MAX_FILES + 1))
    except Problem as problem:
        return show_tab(number, "files", entries=[], above=[], glob=pattern, is_cut=False, trouble=problem)
    shown = sorted(entries[:MAX_FILES], key=lambda item: (item[1].kind is not Kind.DIRECTORY, item[0]))
    return show_tab(
        number,
        "files",
        entries=[_entry(path, name, entry) for name, entry in shown],
        above=_above(path),
        glob=pattern,
        here=quote_path(path),
        is_cut=len(entries) > MAX_FILES,
        trouble=None,
    )


def _entry(above: str, path: str, entry: Entry) -> dict[str, object]:
    whole = f"{above}/{path}" if above else path
    return {
        "name": name_fields(path)["name"],
        "path": quote_path(whole),
        "kind": entry.kind,
        "size": entry.size if entry.kind is Kind.FILE else None,
        "mtime": entry.mtime,
    }


def _above(path: str) -> list[tuple[str, str]]:
    """The directories above, with their paths."""
    parts = path.split("/") if path else []
    return [(name_fields(part)["name"], quote_path("/".join(parts[: i + 1]))) for i, part in enumerate(parts)]


@blueprint.get("/results")
@allow(Role.USER)
def show_results(number: int) -> Response:
    """What the elements wrote to $RESULT_FILE: a table, and two plots."""
    with head().database.read() as session:
        job = jobs.find(session, caller(), number)
        found = progress.list_elements(session, job)
    axes, metrics = _names(found)
    metric = request.args.get("by", "")
    metric = metric if metric in metrics else next(iter(metrics), "")
    is_rising = request.args.get("order", "asc") != "desc"
    numbers = [(element, plots.number(element.results.get(metric))) for element in found.elements]
    known = sorted(
        ((value, element) for element, value in numbers if value is not None),
        key=lambda pair: pair[0],
        reverse=not is_rising,
    )
    rows = [element for _, element in known] + [element for element, value in numbers if value is None]
    return show_tab(
        number,
        "results",
        rows=rows[:MAX_ROWS],
        count=len(rows),
        axes=axes,
        metrics=metrics,
        metric=metric,
        is_rising=is_rising,
        best=known[0][1].index if known else None,
        scatters=[plots.scatter(rows, axis, metric, known[0][1]) for axis in axes] if known else [],
        parallel=plots.parallel(rows, [*axes, *metrics], known[0][1]) if len(known) > 1 else None,
    )


def _names(found: ElementList) -> tuple[list[str], list[str]]:
    """The names of the swept values and of the results, in the order in which they come."""
    axes = dict.fromkeys(name for element in found.elements for name in element.sweep)
    metrics = dict.fromkeys(name for element in found.elements for name in element.results)
    return list(axes), list(metrics)
