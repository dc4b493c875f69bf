"""Aliases: short names for models of resources."""

from pit import output
from pit.entities import Entity
from pit.head import Head
from pit.render import records
from pit.safe import safe
from pit.tables import Column, Section

COLUMNS = (Column("ALIAS"), Column("MODEL", flexible=True))


def show_aliases(head: Head, as_json: bool) -> None:
    answer = head.list_all("aliases")
    if as_json:
        output.show_json(answer)
        return
    rows = [(safe(alias["name"]), safe(alias["model"])) for alias in answer["aliases"]]
    output.show_table(COLUMNS, [Section("", rows)])


def show_alias(head: Head, name: str, as_json: bool) -> None:
    alias = head.record(Entity("alias", name).path)
    if as_json:
        output.show_json(alias)
    else:
        output.show(records([("Alias", safe(alias["name"])), ("Model", safe(alias["model"]))]))
