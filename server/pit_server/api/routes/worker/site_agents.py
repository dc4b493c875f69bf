"""The route of sites' agents: their beat."""

import time

from flask import Blueprint

from pit_protocol.messages.site import MAX_SITE_BEAT, SiteBeat, Wishes
from pit_protocol.problem import Problem
from pit_server.api.http.context import MAX_WAIT_S, head, long_poll, message
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.sites import agent_beats
from pit_server.traffic import Traffic
from pit_server.wakeups import site_topic

blueprint = Blueprint("site_agents", __name__, url_prefix="/site")


@blueprint.post("/beat")
@allow(Role.SITE, max_bytes=MAX_SITE_BEAT, traffic=Traffic.BEAT)
@describe(body=SiteBeat)
def beat() -> Wishes:
    """Allocations that an agent sees, and those that are wanted."""
    received, site_id = message(SiteBeat), _site_id()
    agent_beats.receive(head().database, site_id, received, now=time.time())

    def look() -> tuple[None, bool]:
        with head().database.read() as session:
            return None, agent_beats.revision_of(session, site_id) > received.seen

    long_poll(site_topic(site_id), min(received.wait_s, MAX_WAIT_S), look)
    return agent_beats.make_wishes(
        head().database,
        site_id,
        head().cluster,
        head().settings,
        now=time.time(),
        may_ask=received.allocations is not None,
    )


def _site_id() -> int:
    site_id = caller().site_id
    if site_id is None:
        raise Problem("wrong_kind_of_token", "this route is for a site's token", status=403)
    return site_id
