"""The audit, for admins."""

from flask import Blueprint, request

from pit_protocol.answers.users import AuditLog
from pit_server.api.http.context import head
from pit_server.api.http.description import LIMIT, Param, describe
from pit_server.api.http.guard import Role, allow
from pit_server.services import audit

blueprint = Blueprint("audit", __name__, url_prefix="/audit")


@blueprint.get("")
@allow(Role.ADMIN)
@describe(
    LIMIT,
    Param("before", "only entries before this id", "integer"),
    Param("actor", "only by this user"),
    Param("object", "only on this object, such as `job:7`"),
)
def listing() -> AuditLog:
    """Who did what when, the newest first."""
    with head().database.read() as session:
        return AuditLog(audit.entries(session, request.args))
