"""Admin: who waits for approval, users, groups, nodes with their join line, aliases, the audit."""

import shlex
import time

from flask import Blueprint, Response, request
from msgspec import UNSET

from pit_server import tls
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services import audit
from pit_server.services.nodes import aliases, capacity
from pit_server.services.users import accounts, groups
from pit_server.web.rendering import render

blueprint = Blueprint("web_admin", __name__)
AUDIT_ROWS = 50
AUDIT_FILTERS = ("actor", "object", "before")


@blueprint.get("/admin")
@allow(Role.ADMIN)
def show() -> Response:
    """Everything that only admins do."""
    wanted = {name: request.args[name] for name in AUDIT_FILTERS if request.args.get(name)}
    with head().database.read() as session:
        users = accounts.records(session, caller())
        found = groups.records(session, caller())
        nodes = capacity.records(session, caller(), now=time.time())
        names = aliases.records(session)
        entries = audit.entries(session, {**wanted, "limit": str(AUDIT_ROWS)})
    return render(
        "admin.html",
        unapproved=[user for user in users if user.state == "unapproved"],
        users=[user for user in users if user.state != "unapproved"],
        groups=found,
        nodes=nodes,
        aliases=names,
        entries=entries,
        wanted=wanted,
        rows=AUDIT_ROWS,
        join=_join_command(),
        unset=UNSET,
    )


def _join_command() -> str:
    """What to run on a machine that becomes a node, after its join code."""
    url = head().settings.url or request.host_url.rstrip("/")
    pin = tls.get_pin(head().settings)
    return shlex.join(["pit-worker", "join", url, *([pin] if pin else [])])
