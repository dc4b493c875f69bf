"""The queue: in which order waiting jobs are considered, and why."""

import time

from pit.head.client import Head
from pit.ui import output
from pit.ui.plural import plural
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import clock_time, short_age, start_text
from pit_protocol.answers.queue import EstimateErrors, QueueEntry

COLUMNS = (
    Column("#", right=True),
    Column("JOB", right=True),
    Column("USER"),
    Column("PRIORITY"),
    Column("GROUP"),
    Column("GROUP USE", right=True),
    Column("USER USE", right=True),
    Column("STARTS"),
    Column("REASON", flexible=True),
)


def show_queue(head: Head, as_json: bool) -> None:
    """Use is in weighted hours, and has a job's own share of those ahead of it."""
    queue = head.queue()
    if as_json:
        output.show_json(queue)
        return
    now = time.time()
    if queue.jobs:
        output.show_table(COLUMNS, [Section("", [_row(entry, now) for entry in queue.jobs])])
    else:
        output.show("no job waits for resources" if queue.held else "no job waits")
    if errors := errors_text(queue.estimates):
        output.show(errors)
    if queue.total > len(queue.jobs):
        output.note(f"{queue.total - len(queue.jobs):,} more jobs wait")
    if queue.held:
        waits = "waits" if queue.held == 1 else "wait"
        output.note(f"{plural(queue.held, 'job')} {waits} for something else; `pit status` says for what")


def errors_text(errors: EstimateErrors) -> str:
    """How good the estimates were; empty if no job had one."""
    if errors.median_error_s is None:
        return ""
    inside = f"{errors.inside_percent or 0:.0f} % in their range"
    over = f"over the last {errors.days} days ({plural(errors.jobs, 'job')})"
    return f"estimates: half within ±{short_age(errors.median_error_s)}, {inside}, {over}"


def _starts(entry: QueueEntry, now: float) -> str:
    if entry.starts is not None:
        return start_text(entry.starts, now).removeprefix("starts ")
    return "-" if entry.starts_by is None else f"by {clock_time(entry.starts_by, now)}"


def _row(entry: QueueEntry, now: float) -> tuple[str, ...]:
    age = "" if entry.as_of is None else f" ({short_age(max(0.0, now - entry.as_of))} ago)"
    return (
        str(entry.place),
        "-" if entry.number is None else str(entry.number),
        sanitize(entry.user),
        entry.priority,
        sanitize(entry.group or "-"),
        f"{entry.group_use:.1f}",
        f"{entry.user_use:.1f}",
        _starts(entry, now),
        sanitize(entry.reason) + age,
    )
