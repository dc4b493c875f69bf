"""What a client asks before it sends a snapshot."""

from typing import Any

from flask import Blueprint

from pit_protocol.submission import Lacking, Offer
from pit_protocol.wire import from_json, to_json
from pit_server.api.context import head, json_body
from pit_server.api.policy import Who, allow, caller
from pit_server.services import offers, secrets
from pit_server.services.sources import Sources
from pit_server.store.credential import Credential
from pit_server.store.remote import Remote

blueprint = Blueprint("snapshots", __name__, url_prefix="/snapshots")
MAX_QUESTION = 8 * 1024 * 1024


@blueprint.post("/offer")
@allow(Who.USER)
def offer() -> Any:
    offered = from_json(Offer, json_body())
    place = offers.check_offer(offered)
    return to_json(offers.answer(_sources(), caller().user_id or 0, offered, place, _credential(place)))


@blueprint.post("/lacking")
@allow(Who.USER, max_bytes=MAX_QUESTION)
def lacking() -> Any:
    asked = from_json(Lacking, json_body())
    place = offers.check_lacking(asked)
    return to_json(offers.lacking(_sources(), caller().user_id or 0, asked, place, _credential(place)))


def _sources() -> Sources:
    return Sources(head().data, head().settings)


def _credential(place: Remote | None) -> Credential | None:
    with head().database.read() as session:
        return secrets.get_credential(session, head().settings.home, caller().user_id or 0, place)
