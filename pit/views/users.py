"""Users: all with what everybody may see, one with all that the caller may see."""

from collections.abc import Mapping
from typing import Any

from pit import output
from pit.entities import Entity
from pit.head import Head
from pit.properties import value_text
from pit.render import listing, records
from pit.safe import safe
from pit.tables import Column, Section
from pit.times import local_time

Json = Mapping[str, Any]

COLUMNS = (
    Column("USER"),
    Column("FULL NAME", flexible=True),
    Column("STATE", styles={"unapproved": "yellow", "inactive": "red"}),
    Column("ADMIN"),
    Column("GROUPS", flexible=True),
)
# Of other users, the head does not tell all of these.
LABELS = {
    "name": "Username",
    "full_name": "Full name",
    "email": "E-mail address",
    "groups": "Groups",
    "autoshare": "Autoshare",
    "git": "Git hosts",
    "quota": "Quota",
    "admin": "Admin",
    "state": "State",
}


def show_users(head: Head, as_json: bool) -> None:
    answer = head.list_all("users")
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(user) for user in answer["users"]])])


def show_user(head: Head, name: str, as_json: bool) -> None:
    _show(head.record(Entity("user", name).path), as_json)


def show_me(head: Head, as_json: bool) -> None:
    _show(head.me(), as_json)


def user_text(user: Json) -> str:
    pairs = [(label, _text(user, name)) for name, label in LABELS.items() if name in user]
    created = [("Since", local_time(user["created_at"]))] if user.get("created_at") else []
    return records([*pairs, *created])


def _show(user: Json, as_json: bool) -> None:
    if as_json:
        output.show_json(user)
    else:
        output.show(user_text(user))


def _row(user: Json) -> tuple[str, ...]:
    return tuple(_text(user, name) for name in ("name", "full_name", "state", "admin", "groups"))


def _text(user: Json, name: str) -> str:
    value = user.get(name)
    return listing(value) if isinstance(value, list) else safe(value_text(value)) or "-"
