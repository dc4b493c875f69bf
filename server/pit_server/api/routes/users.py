"""Users, as the API shows and changes them."""

import time
from typing import Any

from flask import Blueprint
from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy.orm import Session

from pit_protocol.answers.users import Removed, User, UserList
from pit_protocol.messages.request_bodies import Properties
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import address, given_properties, head
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.http.paging import PAGE, page
from pit_server.services.files import removed, trash
from pit_server.services.notifications import outbox
from pit_server.services.properties import Property, read_all
from pit_server.services.scheduling import limits
from pit_server.services.users import accounts, groups, permissions
from pit_server.services.users.limits import Accounts
from pit_server.services.users.permissions import Action

blueprint = Blueprint("users", __name__, url_prefix="/users")


@blueprint.get("")
@allow(Role.USER)
@describe(*PAGE)
def listing() -> UserList:
    """All users."""
    with head().database.read() as session:
        return UserList(page(accounts.records(session, caller()), lambda user: user.name))


@blueprint.get("/<name>")
@allow(Role.USER)
def show(name: str) -> User:
    """One user; `me` is the caller."""
    return _record(name)


@blueprint.put("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties, status=(201,))
def add(name: str) -> tuple[User, int]:
    """Add a user."""
    values = _read(given_properties(), is_new=True)
    now = time.time()
    with audited("add", f"user:{name}", describe_values(values)) as session:
        user = accounts.add(session, name, now=now)
        accounts.set_properties(session, caller(), user, values, home=head().settings.home, now=now)
    return _record(name), 201


@blueprint.patch("/<name>")
@allow(Role.USER)
@describe(body=Properties)
def change(name: str) -> User:
    """Change properties of a user."""
    given, known = given_properties(), _named(name)
    old_password = given.pop(accounts.OLD_PASSWORD, "")
    if "password" in given and known == caller().name:
        head().auth.confirm(known, old_password, address(), now=time.time())
    values = _read(given)
    with audited("set", f"user:{known}", describe_values(values)) as session:
        user = accounts.find(session, caller(), known, lock=True)
        accounts.set_properties(session, caller(), user, values, home=head().settings.home, now=time.time())
    return _record(known)


@blueprint.delete("/<name>")
@allow(Role.ADMIN)
def remove(name: str) -> Removed:
    """Remove a user whose jobs have all ended."""
    with audited("remove", f"user:{_named(name)}") as session:
        user = accounts.find(session, caller(), name, lock=True)
        row = removed.remove_user(session, caller(), user, now=time.time())
    return Removed(user.name, trash.record(row, head().settings.trash_days))


@blueprint.put("/<name>/groups/<group>")
@allow(Role.ADMIN)
def join(name: str, group: str) -> User:
    """Make a user a member of a group."""
    with audited("add to group", f"user:{_named(name)}", group) as session:
        user = accounts.find(session, caller(), name)
        groups.add_member(session, user.id, groups.find(session, group))
    return _record(user.name)


@blueprint.delete("/<name>/groups/<group>")
@allow(Role.USER)
def leave(name: str, group: str) -> User:
    """End a membership; users may end their own."""
    with audited("remove from group", f"user:{_named(name)}", group) as session:
        user = accounts.find(session, caller(), name)
        permissions.require(
            Action.LEAVE_GROUP, accounts.relations(caller(), user), f"the membership of {user.name}"
        )
        groups.remove_member(session, user.id, groups.find(session, group))
    return _record(user.name)


def _record(name: str) -> User:
    with head().database.read() as session:
        user = accounts.find(session, caller(), name)
        return with_limits(session, accounts.records(session, caller(), user.name)[0], user.id)


def with_limits(session: Session, record: User, user_id: int) -> User:
    """The record with all limits that apply and messages that wait, if the caller may see the account."""
    if record.max_gpus is UNSET:
        return record
    mine, now = Accounts(session, head().settings).of_user(user_id), time.time()
    told = outbox.describe(session, user_id, now=now)
    return replace(record, limits=limits.describe(session, mine, now=now), outbox=told)


def _named(name: str) -> str:
    """The user's name; `me` is the caller's."""
    return caller().name if name == accounts.ME else name


def _read(given: dict[str, str], *, is_new: bool = False) -> list[tuple[Property, str, Any]]:
    """The values to set. Passwords are hashed here, before a session is open, because hashing is slow."""
    values = read_all("user", accounts.PROPERTIES, given, is_new=is_new)
    hashes = head().auth.passwords
    return [(prop, name, hashes.make(text) if name == "password" else text) for prop, name, text in values]
