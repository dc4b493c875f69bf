"""The audit: who did what when, newest first."""

from collections.abc import Sequence

import click

from pit.args.options import parse_pairs
from pit.head.client import Head, Params
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time
from pit_protocol.answers.users import AuditEntry

FILTERS = ("actor", "object", "limit")
COLUMNS = (
    Column("TIME", importance=5),
    Column("ACTOR", importance=5),
    Column("ACT", importance=5),
    Column("OBJECT", importance=5),
    Column("DETAIL", flexible=True, importance=3),
    Column("ADDRESS"),
)


def parse_filters(words: Sequence[str]) -> dict[str, str]:
    filters = parse_pairs(words, FILTERS)
    limit = filters.get("limit", "1")
    if not (limit.isascii() and limit.isdecimal()):
        raise click.UsageError(f"limit is a number, not {limit!r}")
    return filters


def show_audit(head: Head, filters: Params, as_json: bool) -> None:
    answer = head.audit(filters)
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(entry) for entry in answer.entries])])


def _row(entry: AuditEntry) -> tuple[str, ...]:
    words = (entry.actor, entry.act, entry.object, entry.detail, entry.address)
    return (local_time(entry.at), *(sanitize(word) or "-" for word in words))
