"""Tokens: from which machines one is logged in. Their secrets are nowhere to be seen."""

from collections.abc import Mapping, Sequence
from typing import Any

from pit import output
from pit.head import Head, Params
from pit.options import parse_pairs
from pit.safe import safe
from pit.tables import Column, Section
from pit.times import get_local_date, get_local_time

Json = Mapping[str, Any]

FILTERS = ("user",)
COLUMNS = (
    Column(""),
    Column("TOKEN", right=True),
    Column("USER"),
    Column("LABEL", flexible=True),
    Column("CREATED"),
    Column("LAST USED"),
    Column("EXPIRES"),
)


def parse_filters(words: Sequence[str]) -> dict[str, str]:
    return parse_pairs(words, FILTERS)


def show_tokens(head: Head, filters: Params, as_json: bool) -> None:
    answer = head.list_all("tokens", filters)
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(token) for token in answer["tokens"]])])


def _row(token: Json) -> tuple[str, ...]:
    return (
        "*" if token["current"] else "",
        safe(token["id"]),
        safe(token["user"]),
        safe(token["label"] or "-"),
        get_local_date(token["created_at"]),
        get_local_time(token["last_used_at"]),
        get_local_date(token["expires_at"]),
    )
