"""The audit, for admins."""

from flask import Blueprint, request

from pit_protocol.answers.users import AuditLog
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow
from pit_server.services import audit

blueprint = Blueprint("audit", __name__, url_prefix="/audit")


@blueprint.get("")
@allow(Role.ADMIN)
def listing() -> AuditLog:
    with head().database.read() as session:
        return AuditLog(audit.entries(session, request.args))
