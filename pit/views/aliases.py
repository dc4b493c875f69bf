"""Aliases: short names for models of resources."""

from pit.head.client import Head
from pit.ui import output
from pit.ui.render import records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section

COLUMNS = (Column("ALIAS"), Column("MODEL", flexible=True))


def show_aliases(head: Head, as_json: bool) -> None:
    answer = head.aliases()
    if as_json:
        output.show_json(answer)
        return
    rows = [(sanitize(alias.name), sanitize(alias.model)) for alias in answer.aliases]
    output.show_table(COLUMNS, [Section("", rows)])


def show_alias(head: Head, name: str, as_json: bool) -> None:
    alias = head.alias(name)
    if as_json:
        output.show_json(alias)
    else:
        output.show(records([("Alias", sanitize(alias.name)), ("Model", sanitize(alias.model))]))
