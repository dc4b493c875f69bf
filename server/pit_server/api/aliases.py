"""Aliases, as the API shows and changes them."""

from typing import Any

from flask import Blueprint

from pit_server.api.context import given_properties, head
from pit_server.api.deeds import deed, told
from pit_server.api.policy import Who, allow
from pit_server.bells import SCHEDULER
from pit_server.db.database import ring_after_commit
from pit_server.services import aliases
from pit_server.services.properties import read_all

blueprint = Blueprint("aliases", __name__, url_prefix="/aliases")


@blueprint.get("")
@allow(Who.USER)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return {"aliases": aliases.records(session)}


@blueprint.get("/<name>")
@allow(Who.USER)
def show(name: str) -> dict[str, Any]:
    with head().database.read() as session:
        return {"name": name, "model": aliases.find(session, name).model}


@blueprint.put("/<name>")
@allow(Who.ADMIN)
def add(name: str) -> tuple[dict[str, Any], int]:
    values = read_all("alias", aliases.PROPERTIES, given_properties(), is_new=True)
    with deed("add", f"alias:{name}", told(values)) as session:
        aliases.add(session, name, values[0][2])
        ring_after_commit(session, SCHEDULER)
    return show(name), 201


@blueprint.patch("/<name>")
@allow(Who.ADMIN)
def change(name: str) -> dict[str, Any]:
    values = read_all("alias", aliases.PROPERTIES, given_properties())
    with deed("set", f"alias:{name}", told(values)) as session:
        aliases.change(session, name, values[0][2])
        ring_after_commit(session, SCHEDULER)
    return show(name)


@blueprint.delete("/<name>")
@allow(Who.ADMIN)
def remove(name: str) -> dict[str, Any]:
    with deed("remove", f"alias:{name}") as session:
        aliases.remove(session, name)
    return {"name": name}
