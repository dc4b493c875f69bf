"""The audit, for admins."""

from typing import Any

from flask import Blueprint, request

from pit_server.api.context import head
from pit_server.api.policy import Who, allow
from pit_server.services import audit

blueprint = Blueprint("audit", __name__, url_prefix="/audit")


@blueprint.get("")
@allow(Who.ADMIN)
def listing() -> dict[str, Any]:
    with head().database.read() as session:
        return {"entries": audit.entries(session, request.args)}
