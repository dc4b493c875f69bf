"""What a client asks before it sends a snapshot."""

from flask import Blueprint

from pit_protocol.answers.snapshots import OfferAnswer, RemoteSnapshot
from pit_protocol.messages.submission import MissingObjects, Offer, RemoteRef
from pit_server.api.http.context import head, message
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.snapshots import negotiation, refs
from pit_server.services.snapshots.sources import Sources
from pit_server.services.users import secrets
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.remote import Remote, parse
from pit_server.traffic import Traffic

blueprint = Blueprint("snapshots", __name__, url_prefix="/snapshots")
MAX_QUESTION = 8 * 1024 * 1024


@blueprint.post("/offer")
@allow(Role.USER)
@describe(body=Offer)
def offer() -> OfferAnswer:
    """Offer a snapshot; the answer says what to send."""
    offered = message(Offer)
    place = negotiation.check_offer(offered)
    return negotiation.answer(_sources(), caller().user_id or 0, offered, place, _credential(place))


@blueprint.post("/missing")
@allow(Role.USER, max_bytes=MAX_QUESTION)
@describe(body=MissingObjects)
def missing() -> MissingObjects:
    """Which objects the head does not have."""
    asked = message(MissingObjects)
    place = negotiation.check_query(asked)
    return negotiation.list_missing(_sources(), caller().user_id or 0, asked, place, _credential(place))


@blueprint.post("/remote")
@allow(Role.USER, traffic=Traffic.TRANSFER)
@describe(body=RemoteRef)
def find_remote() -> RemoteSnapshot:
    """Fetch a branch, tag or commit; the answer can be submitted."""
    wanted = message(RemoteRef)
    place = parse(wanted.remote)
    return refs.find(_sources(), caller().user_id or 0, place, wanted.ref, _credential(place))


def _sources() -> Sources:
    return Sources(head().data, head().settings)


def _credential(place: Remote | None) -> Credential | None:
    with head().database.read() as session:
        return secrets.get_credential(session, head().settings.home, caller().user_id or 0, place)
