"""Aliases, as the API shows and changes them."""

from flask import Blueprint

from pit_protocol.answers.nodes import Alias, AliasList
from pit_protocol.answers.users import Removed
from pit_protocol.messages.request_bodies import Properties
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import given_properties, head
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow
from pit_server.api.http.paging import PAGE, page
from pit_server.db.database import notify_after_commit
from pit_server.services.nodes import aliases
from pit_server.services.properties import read_all
from pit_server.wakeups import SCHEDULER

blueprint = Blueprint("aliases", __name__, url_prefix="/aliases")


@blueprint.get("")
@allow(Role.USER)
@describe(*PAGE)
def listing() -> AliasList:
    """All aliases of models of GPUs."""
    with head().database.read() as session:
        return AliasList(page(aliases.records(session), lambda alias: alias.name))


@blueprint.get("/<name>")
@allow(Role.USER)
def show(name: str) -> Alias:
    """One alias."""
    return _record(name)


@blueprint.put("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties, status=(201,))
def add(name: str) -> tuple[Alias, int]:
    """Add an alias."""
    values = read_all("alias", aliases.PROPERTIES, given_properties(), is_new=True)
    with audited("add", f"alias:{name}", describe_values(values)) as session:
        aliases.add(session, name, values[0][2])
        notify_after_commit(session, SCHEDULER)
    return _record(name), 201


@blueprint.patch("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties)
def change(name: str) -> Alias:
    """Change the model of an alias."""
    values = read_all("alias", aliases.PROPERTIES, given_properties())
    with audited("set", f"alias:{name}", describe_values(values)) as session:
        aliases.change(session, name, values[0][2])
        notify_after_commit(session, SCHEDULER)
    return _record(name)


@blueprint.delete("/<name>")
@allow(Role.ADMIN)
def remove(name: str) -> Removed:
    """Remove an alias that no job requests."""
    with audited("remove", f"alias:{name}") as session:
        aliases.remove(session, name)
    return Removed(name)


def _record(name: str) -> Alias:
    with head().database.read() as session:
        return Alias(name, aliases.find(session, name).model)
