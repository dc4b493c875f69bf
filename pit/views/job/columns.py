"""The columns that `pit show jobs --columns` can show."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import click

from pit.ui.sanitize import sanitize
from pit.ui.tables import Column
from pit.ui.times import get_local_time, short_age
from pit.views.arrays import progress_text
from pit.views.job.table import STATE_STYLES, percent
from pit_protocol.answers.jobs import JobRow
from pit_protocol.variables import NAME

VARIABLE = "env."
NONE = "-"


@dataclass(frozen=True)
class JobColumn:
    column: Column
    cell: Callable[[JobRow], str]
    asked: str = ""  # what the head is asked for, if the summary of a job does not have it


COLUMNS: dict[str, JobColumn] = {
    "number": JobColumn(Column("JOB", right=True), lambda job: job.name),
    "state": JobColumn(Column("S", styles=STATE_STYLES), lambda job: sanitize(job.letters)),
    "since": JobColumn(Column("SINCE"), lambda job: short_age(time.time() - job.since)),
    "created": JobColumn(Column("CREATED"), lambda job: get_local_time(job.created_at)),
    "runtime": JobColumn(
        Column("RUNTIME", right=True), lambda job: NONE if job.run_s is None else short_age(job.run_s)
    ),
    "gpu": JobColumn(Column("UC%", right=True), lambda job: percent(job.gpu_percent)),
    "memory": JobColumn(Column("UM%", right=True), lambda job: percent(job.memory_percent)),
    "user": JobColumn(Column("USER"), lambda job: sanitize(job.user)),
    "title": JobColumn(Column("TITLE", flexible=True), lambda job: sanitize(job.title)),
    "request": JobColumn(Column("RESOURCE", flexible=True), lambda job: sanitize(job.request)),
    "result": JobColumn(Column("RESULT", flexible=True), lambda job: sanitize(job.result or NONE), "result"),
    "progress": JobColumn(
        Column("PROGRESS"), lambda job: progress_text(job.elements) if job.elements else NONE
    ),
    "reason": JobColumn(Column("REASON", flexible=True), lambda job: sanitize(job.reason or NONE)),
}


def parse_columns(text: str) -> list[JobColumn]:
    """Parse `number,state,env.LR`; the first are the most important on a narrow terminal."""
    if text == "help":
        raise click.UsageError(f"--columns takes names with commas between them; {_known()}")
    names = [name.strip() for name in text.split(",") if name.strip()]
    found = [_find(name) for name in names]
    if not found:
        raise click.UsageError(f"--columns is empty; {_known()}")
    return [
        replace(column, column=replace(column.column, importance=len(found) - i))
        for i, column in enumerate(found)
    ]


def job_cells(columns: Sequence[JobColumn], job: JobRow) -> tuple[str, ...]:
    return tuple(column.cell(job) for column in columns)


def _find(name: str) -> JobColumn:
    if name in COLUMNS:
        return COLUMNS[name]
    variable = name.removeprefix(VARIABLE)
    if variable == name or not NAME.fullmatch(variable):
        raise click.UsageError(f"there is no column {name!r}; {_known()}")
    return JobColumn(Column(variable, flexible=True), lambda job: _value(job, variable), name)


def _known() -> str:
    return f"the columns are {', '.join(COLUMNS)}, and {VARIABLE}NAME for a variable"


def _value(job: JobRow, name: str) -> str:
    return "(secret)" if name in job.secrets else sanitize(job.env.get(name, NONE))
