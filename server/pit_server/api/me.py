"""Who is there: the head itself, and the caller."""

from typing import Any

from flask import Blueprint

from pit_protocol import __version__
from pit_server.api.context import head
from pit_server.api.policy import Who, allow, caller
from pit_server.services import people
from pit_server.services.registration import needs_setup

blueprint = Blueprint("me", __name__)


@blueprint.get("/")
@allow(Who.ANYONE)
def about() -> dict[str, Any]:
    with head().database.read() as session:
        is_empty = needs_setup(session)
    return {
        "name": "pit",
        "version": __version__,
        "cluster": head().cluster,
        "registration": head().door.mode,
        "needs_setup": is_empty,
    }


@blueprint.get("/me")
@allow(Who.USER)
def me() -> dict[str, Any]:
    with head().database.read() as session:
        return people.records(session, caller(), caller().name)[0]
