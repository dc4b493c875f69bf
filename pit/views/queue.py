"""The queue: in which order waiting jobs are considered, and why."""

import time

from pit.head.client import Head
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time, short_age
from pit_protocol.answers.queue import QueueEntry

COLUMNS = (
    Column("#", right=True),
    Column("JOB", right=True),
    Column("USER"),
    Column("PRIORITY"),
    Column("GROUP"),
    Column("GROUP USE", right=True),
    Column("USER USE", right=True),
    Column("STARTS BY"),
    Column("REASON", flexible=True),
)


def show_queue(head: Head, as_json: bool) -> None:
    """Use is in weighted hours, and has a job's own share of those ahead of it."""
    queue = head.queue()
    if as_json:
        output.show_json(queue)
        return
    if not queue.jobs:
        output.show("no job waits")
        return
    now = time.time()
    output.show_table(COLUMNS, [Section("", [_row(entry, now) for entry in queue.jobs])])
    if queue.total > len(queue.jobs):
        output.note(f"{queue.total - len(queue.jobs):,} more jobs wait")


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
        "-" if entry.starts_by is None else local_time(entry.starts_by),
        sanitize(entry.reason) + age,
    )
