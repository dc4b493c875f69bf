"""Users: a list of all, or one with everything that the caller may see."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from pit.args.properties import value_text
from pit.head.client import Head
from pit.ui import output
from pit.ui.render import listing, records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time
from pit_protocol.answers.users import User

COLUMNS = (
    Column("USER", importance=9),
    Column("FULL NAME", flexible=True),
    Column("STATE", styles={"unapproved": "yellow", "inactive": "red"}, importance=5),
    Column("ADMIN"),
    Column("GROUPS", flexible=True),
)
# Of other users, the head leaves some of these out.
LABELS = {
    "name": "Username",
    "full_name": "Full name",
    "email": "E-mail address",
    "groups": "Groups",
    "autoshare": "Autoshare",
    "git": "Git hosts",
    "quota": "Quota",
    "share_group": "Share group",
    "max_priority": "Priority",
    "notify": "Notify",
    "channels": "Channels",
    "admin": "Admin",
    "state": "State",
}


def show_users(head: Head, as_json: bool) -> None:
    answer = head.users()
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [_row(user) for user in answer.users])])


def show_user(head: Head, name: str, as_json: bool) -> None:
    _show(head.user(name), as_json)


def show_me(head: Head, as_json: bool) -> None:
    _show(head.me(), as_json)


def user_text(user: User) -> str:
    pairs = [(label, _text(user, name)) for name, label in LABELS.items() if getattr(user, name) is not UNSET]
    if isinstance(user.limits, list):
        pairs += [("Limits", sanitize(line)) for line in user.limits]
    if isinstance(user.outbox, list):
        pairs += [("Messages", sanitize(line)) for line in user.outbox]
    if isinstance(user.jobs, dict):
        pairs.append(("Jobs", jobs_text(user.jobs) or "-"))
    created = [("Since", local_time(user.created_at))] if isinstance(user.created_at, float) else []
    return records([*pairs, *created])


def jobs_text(jobs: Mapping[str, Sequence[int]]) -> str:
    """The jobs of a user who is not active, such as `held: 4, 5; running: 3`."""
    return "; ".join(f"{sanitize(state)}: {', '.join(map(str, found))}" for state, found in jobs.items())


def _show(user: User, as_json: bool) -> None:
    if as_json:
        output.show_json(user)
    else:
        output.show(user_text(user))


def _row(user: User) -> tuple[str, ...]:
    return tuple(_text(user, name) for name in ("name", "full_name", "state", "admin", "groups"))


def _text(user: User, name: str) -> str:
    value = getattr(user, name)
    if value is UNSET:
        return "-"
    return listing(value) if isinstance(value, list) else sanitize(value_text(value)) or "-"
