"""Tokens: from which machines a user is logged in. Secrets are never shown."""

from collections.abc import Sequence

from pit.args.options import parse_pairs
from pit.head.client import Head, Params
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import get_local_date, get_local_time
from pit_protocol.answers.users import Token

FILTERS = ("user",)
COLUMNS = (
    Column(""),
    Column("TOKEN", right=True, importance=9),
    Column("USER"),
    Column("LABEL", flexible=True, importance=5),
    Column("CREATED"),
    Column("LAST USED", importance=4),
    Column("EXPIRES"),
)


def parse_filters(words: Sequence[str]) -> dict[str, str]:
    return parse_pairs(words, FILTERS)


def show_tokens(head: Head, filters: Params, as_json: bool) -> None:
    answer = head.tokens(filters)
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(token) for token in answer.tokens])])


def _row(token: Token) -> tuple[str, ...]:
    return (
        "*" if token.current else "",
        str(token.id),
        sanitize(token.user),
        sanitize(token.label or "-"),
        get_local_date(token.created_at),
        get_local_time(token.last_used_at),
        get_local_date(token.expires_at),
    )
