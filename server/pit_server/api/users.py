"""Users, as the API shows and changes them."""

import time
from typing import Any

from flask import Blueprint

from pit_server.api.context import given_properties, head
from pit_server.api.deeds import deed, told
from pit_server.api.policy import Who, allow, caller
from pit_server.services import groups, people, rights
from pit_server.services.properties import Property, read_all
from pit_server.services.rights import Act

blueprint = Blueprint("users", __name__, url_prefix="/users")


@blueprint.get("")
@allow(Who.USER)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return {"users": people.records(session, caller())}


@blueprint.get("/<name>")
@allow(Who.USER)
def show(name: str) -> dict[str, Any]:
    with head().database.read() as session:
        return people.records(session, caller(), people.find(session, caller(), name).name)[0]


@blueprint.put("/<name>")
@allow(Who.ADMIN)
def add(name: str) -> tuple[dict[str, Any], int]:
    values = _read(is_new=True)
    now = time.time()
    with deed("add", f"user:{name}", told(values)) as session:
        user = people.add(session, name, now=now)
        people.set_properties(session, caller(), user, values, home=head().settings.home, now=now)
    return show(name), 201


@blueprint.patch("/<name>")
@allow(Who.USER)
def change(name: str) -> dict[str, Any]:
    values = _read()
    known = _named(name)
    with deed("set", f"user:{known}", told(values)) as session:
        user = people.find(session, caller(), known, lock=True)
        people.set_properties(session, caller(), user, values, home=head().settings.home, now=time.time())
    return show(known)


@blueprint.delete("/<name>")
@allow(Who.ADMIN)
def remove(name: str) -> dict[str, Any]:
    with deed("remove", f"user:{_named(name)}") as session:
        user = people.find(session, caller(), name, lock=True)
        people.remove(session, caller(), user, now=time.time())
    head().data.discard(head().data.home(user.name))
    return {"name": user.name}


@blueprint.put("/<name>/groups/<group>")
@allow(Who.ADMIN)
def join(name: str, group: str) -> dict[str, Any]:
    with deed("add to group", f"user:{_named(name)}", group) as session:
        user = people.find(session, caller(), name)
        groups.add_member(session, user.id, groups.find(session, group))
    return show(user.name)


@blueprint.delete("/<name>/groups/<group>")
@allow(Who.USER)
def leave(name: str, group: str) -> dict[str, Any]:
    with deed("remove from group", f"user:{_named(name)}", group) as session:
        user = people.find(session, caller(), name)
        rights.demand(Act.LEAVE_GROUP, people.ties(caller(), user), f"the membership of {user.name}")
        groups.remove_member(session, user.id, groups.find(session, group))
    return show(user.name)


def _named(name: str) -> str:
    """Who is meant: `me` is the caller."""
    return caller().name if name == people.ME else name


def _read(*, is_new: bool = False) -> list[tuple[Property, str, Any]]:
    """What is to be set; passwords are hashed here, before a session is open, for that takes its time."""
    values = read_all("user", people.PROPERTIES, given_properties(), is_new=is_new)
    hashes = head().door.passwords
    return [(prop, name, hashes.make(text) if name == "password" else text) for prop, name, text in values]
