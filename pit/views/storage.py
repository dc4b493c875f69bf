"""The trash, and who uses how much of the disk, as `pit show` prints them."""

from pit.head.client import Head
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time
from pit_protocol.answers.files import DomainUsage

TRASH = (
    Column("ID", right=True, importance=9),
    Column("REMOVED"),
    Column("UNTIL", importance=2),
    Column("BY"),
    Column("DOMAIN", importance=8),
    Column("PATH", flexible=True, importance=5),
)
USAGE = (
    Column("DOMAIN"),
    Column("SIZE", right=True),
    Column("QUOTA", right=True),
    Column("FILES", right=True),
)
UNITS = ("B", "K", "M", "G", "T", "P")


def show_trash(head: Head, as_json: bool) -> None:
    found = head.trash()
    if as_json:
        output.show_json(found)
        return
    rows = [
        (
            str(row.id),
            local_time(row.at),
            local_time(row.until) if row.until else "-",
            sanitize(row.by),
            sanitize(row.domain),
            sanitize(row.path) or ("its directory" if row.kind == "files" else "all of it"),
        )
        for row in found.trash
    ]
    output.show_table(TRASH, [Section("", rows)])


def show_usage(head: Head, as_json: bool) -> None:
    found = head.usage()
    if as_json:
        output.show_json(found)
        return
    disk = found.disk
    rows = [_row(row) for row in found.domains]
    output.show_table(USAGE, [Section("", rows)])
    output.show(f"{short(disk.free)} of {short(disk.total)} are free on the head's disk")


def _row(row: DomainUsage) -> tuple[str, ...]:
    quota = short(row.quota) if row.quota is not None else "-"
    return sanitize(row.domain), short(row.size), quota, f"{row.files:,}"


def short(size: float) -> str:
    """`1.5G`, as one would type it for a quota."""
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f}{unit}" if unit == "B" else f"{size:.1f}{unit}"
