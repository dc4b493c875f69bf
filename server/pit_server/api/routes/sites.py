"""Sites, as people see and change them."""

import time

from flask import Blueprint, request

from pit_protocol.answers.sites import Site, SiteAdded, SiteList, SiteRemoved
from pit_protocol.messages.request_bodies import Properties
from pit_server.api.http.audited import audited, describe_values
from pit_server.api.http.context import given_properties, head
from pit_server.api.http.description import describe, flag
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.properties import read_all
from pit_server.services.sites import records, sites
from pit_server.services.sites.properties import PROPERTIES

blueprint = Blueprint("sites", __name__, url_prefix="/sites")


@blueprint.get("")
@allow(Role.USER)
def listing() -> SiteList:
    """All sites with their allocations."""
    with head().database.read() as session:
        return SiteList(records.records(session, caller(), now=time.time()))


@blueprint.get("/<name>")
@allow(Role.USER)
def show(name: str) -> Site:
    """One site."""
    return _record(name)


@blueprint.put("/<name>")
@allow(Role.ADMIN)
@describe(flag("again", "make a new join code for a known site"), body=Properties, status=(201,))
def add(name: str) -> tuple[SiteAdded, int]:
    """Add a site; the answer has the join code of its agent."""
    again = request.args.get("again") == "yes"
    values = [] if again else read_all("site", PROPERTIES, given_properties(), is_new=True)
    now = time.time()
    with audited("add again" if again else "add", f"site:{name}", describe_values(values)) as session:
        site = sites.find(session, name, lock=True) if again else sites.add(session, name)
        sites.set_properties(session, site, values)
        good_for_s = head().settings.join_code_s
        code, expires_at = sites.make_join_code(session, site, now=now, good_for_s=good_for_s)
    return SiteAdded(_record(name), code, expires_at), 201


@blueprint.patch("/<name>")
@allow(Role.ADMIN)
@describe(body=Properties)
def change(name: str) -> Site:
    """Change properties of a site."""
    values = read_all("site", PROPERTIES, given_properties())
    with audited("set", f"site:{name}", describe_values(values)) as session:
        sites.set_properties(session, sites.find(session, name, lock=True), values)
    return _record(name)


@blueprint.delete("/<name>")
@allow(Role.ADMIN)
def remove(name: str) -> SiteRemoved:
    """Remove a site without allocations."""
    with audited("remove", f"site:{name}") as session:
        sites.remove(session, sites.find(session, name, lock=True), now=time.time())
    return SiteRemoved(name)


def _record(name: str) -> Site:
    with head().database.read() as session:
        return records.records(session, caller(), name, now=time.time())[0]
