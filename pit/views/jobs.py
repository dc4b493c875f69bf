"""Jobs: many by filter, or one with all details."""

import time
from collections.abc import Sequence

import click

from pit.args.options import job_number
from pit.head.client import Head, Params
from pit.ui import output
from pit.ui.tables import Section
from pit.ui.times import parse_time
from pit.views import arrays
from pit.views.job import details
from pit.views.job import processes as process_views
from pit.views.job.columns import JobColumn, job_cells
from pit.views.job.table import JOB_COLUMNS, job_row, job_section
from pit_protocol.job_options import SEARCHABLE
from pit_protocol.states import LETTERS, JobState, Outcome

FILTERS = (
    "user",
    "node",
    "state",
    "outcome",
    "title",
    *SEARCHABLE,
    "since",
    "till",
    "asc",
    "desc",
    "limit",
    "offset",
)
ORDERS = ("date", "title", "user", "state")


def parse_filters(words: Sequence[str]) -> dict[str, str | float]:
    """The head's parameters for `user=jill since=2026-04`."""
    filters: dict[str, str | float] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in FILTERS:
            raise click.UsageError(f"{word!r} is not a filter; write {', '.join(FILTERS)}, each with =VALUE")
        if key in ("state", "outcome"):
            key, value = _parse_state(value)
        filters[key] = _filter_value(key, value, time.time())
    return filters


def show_jobs(head: Head, filters: Params, as_json: bool, columns: Sequence[JobColumn] = ()) -> None:
    """Jobs with the usual columns, or with those that were asked for."""
    asked = ",".join(column.asked for column in columns if column.asked)
    answer = head.jobs({**filters, "columns": asked or None})
    if as_json:
        output.show_json(answer)
        return
    now = time.time()
    rows = [job_cells(columns, job) if columns else job_row(job, now) for job in answer.jobs]
    more = max(0, answer.total - int(filters.get("offset") or 0) - len(rows))
    shown = [column.column for column in columns] or JOB_COLUMNS
    section = Section("", rows, more) if columns else job_section("", rows, more, answer.jobs, now)
    output.show_table(shown, [section])


def show_job(head: Head, name: str, as_json: bool, *, events: bool = False, processes: bool = False) -> None:
    """One job on one screen; `events` adds its events, `processes` gives each process a row."""
    job, now = head.job(job_number(name)), time.time()
    if as_json:
        output.show_json(job)
        return
    output.show(details.job_text(job, now, output.terminal_width()))
    if job.failed:
        output.show("")
        output.show_table(arrays.FAILED_COLUMNS, [arrays.failed_section(job)])
    if job.processes:
        output.show("")
        section = (process_views.process_section if processes else process_views.folded_section)(
            job.processes, now
        )
        output.show_table(process_views.process_columns(job.processes), [section])
    if events:
        output.show("")
        output.show_table(details.EVENT_COLUMNS, [details.event_section(job)])


def _parse_state(text: str) -> tuple[str, str]:
    """The head's parameter for a state or an outcome, by its word or its letters: `waiting`, `WAI`."""
    word = text.lower().replace("_", " ")
    for known in (*JobState, *Outcome):
        if word in (known, LETTERS.get(known, "").lower()):
            return ("state" if isinstance(known, JobState) else "outcome"), known
    words = ", ".join(
        f"{known} ({LETTERS[known]})" if known in LETTERS else known for known in (*JobState, *Outcome)
    )
    raise click.UsageError(f"there is no state {text!r}; the states are {words}")


def _filter_value(key: str, value: str, now: float) -> str | float:
    if key in ("since", "till"):
        try:
            return parse_time(value, now)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if key in ("title", *SEARCHABLE) and "%" not in value:
        return f"%{value}%"
    if key in ("asc", "desc") and value not in ORDERS:
        raise click.UsageError(f"jobs are ordered by {', '.join(ORDERS)}, not by {value!r}")
    if key in ("limit", "offset") and not (value.isascii() and value.isdecimal()):
        raise click.UsageError(f"{key} is a number, not {value!r}")
    return value
