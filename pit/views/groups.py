"""Groups: who is in them, and what is kept for them."""

from collections.abc import Mapping
from typing import Any

from pit import output
from pit.entities import Entity
from pit.head import Head
from pit.render import listing, records
from pit.safe import safe
from pit.tables import Column, Section

Json = Mapping[str, Any]

COLUMNS = (
    Column("GROUP"),
    Column("TITLE", flexible=True),
    Column("MEMBERS", flexible=True),
    Column("NODES", flexible=True),
)


def show_groups(head: Head, as_json: bool) -> None:
    answer = head.list_all("groups")
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(group) for group in answer["groups"]])])


def show_group(head: Head, name: str, as_json: bool) -> None:
    group = head.record(Entity("group", name).path)
    if as_json:
        output.show_json(group)
    else:
        pairs = zip(("Group name", "Title", "Members", "Nodes"), _row(group), strict=True)
        quota = [("Quota", safe(group["quota"] or "-"))] if "quota" in group else []
        output.show(records([*pairs, *quota]))


def _row(group: Json) -> tuple[str, ...]:
    return (
        safe(group["name"]),
        safe(group["title"] or "-"),
        listing(group["members"]) if "members" in group else "(for members to see)",
        listing(group.get("nodes")),
    )
