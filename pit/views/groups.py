"""Groups: who is in them, and what is kept for them."""

from msgspec import UnsetType

from pit.head.client import Head
from pit.ui import output
from pit.ui.render import listing, records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit_protocol.answers.users import Group

COLUMNS = (
    Column("GROUP"),
    Column("TITLE", flexible=True),
    Column("MEMBERS", flexible=True),
    Column("NODES", flexible=True),
)


def show_groups(head: Head, as_json: bool) -> None:
    answer = head.groups()
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(group) for group in answer.groups])])


def show_group(head: Head, name: str, as_json: bool) -> None:
    group = head.group(name)
    if as_json:
        output.show_json(group)
    else:
        pairs = zip(("Group name", "Title", "Members", "Nodes"), _row(group), strict=True)
        quota = [] if isinstance(group.quota, UnsetType) else [("Quota", sanitize(group.quota or "-"))]
        limits = [("Limits", sanitize(line)) for line in group.limits or ()]
        output.show(records([*pairs, *quota, *limits]))


def _row(group: Group) -> tuple[str, ...]:
    return (
        sanitize(group.name),
        sanitize(group.title or "-"),
        "(for members to see)" if isinstance(group.members, UnsetType) else listing(group.members),
        listing(group.nodes),
    )
