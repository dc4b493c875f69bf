"""The audit: who did what when, newest first."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from pit import output
from pit.head import Head, Params
from pit.options import parse_pairs
from pit.properties import value_text
from pit.safe import safe
from pit.tables import Column, Section
from pit.times import local_time

Json = Mapping[str, Any]

FILTERS = ("actor", "object", "limit")
COLUMNS = (
    Column("TIME"),
    Column("ACTOR"),
    Column("ACT"),
    Column("OBJECT"),
    Column("DETAIL", flexible=True),
    Column("ADDRESS"),
)


def parse_filters(words: Sequence[str]) -> dict[str, str]:
    filters = parse_pairs(words, FILTERS)
    limit = filters.get("limit", "1")
    if not (limit.isascii() and limit.isdecimal()):
        raise click.UsageError(f"limit is a number, not {limit!r}")
    return filters


def show_audit(head: Head, filters: Params, as_json: bool) -> None:
    answer = head.list_all("audit", filters)
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(entry) for entry in answer["entries"]])])


def _row(entry: Json) -> tuple[str, ...]:
    names = ("actor", "act", "object", "detail", "address")
    return (local_time(entry["at"]), *(safe(value_text(entry[name])) or "-" for name in names))
