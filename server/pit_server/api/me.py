"""Who is there: the head itself, and the caller."""

from typing import Any

from flask import Blueprint

from pit_protocol import __version__
from pit_server.api.context import head
from pit_server.api.policy import Who, allow, caller

blueprint = Blueprint("me", __name__)


@blueprint.get("/")
@allow(Who.ANYONE)
def about() -> dict[str, Any]:
    return {"name": "pit", "version": __version__, "cluster": head().cluster}


@blueprint.get("/me")
@allow(Who.USER)
def me() -> dict[str, Any]:
    user = caller()
    return {"name": user.name, "full_name": user.full_name, "admin": user.is_admin}
