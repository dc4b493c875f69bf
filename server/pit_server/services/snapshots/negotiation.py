"""Negotiation: which parts of a snapshot the head has, can fetch itself, or must be sent."""

import time
from pathlib import Path

from msgspec.structs import replace

from pit_protocol.answers.snapshots import OfferAnswer
from pit_protocol.messages.submission import MAX_HISTORY, MAX_OBJECTS, LfsFile, MissingObjects, Offer
from pit_protocol.problem import Problem
from pit_server.services.snapshots.lfs import LargeFiles
from pit_server.services.snapshots.remote_check import check_hash
from pit_server.services.snapshots.sources import Sources
from pit_server.store.git import fetch
from pit_server.store.git.lfs_pointers import Pointer
from pit_server.store.git.repository import EMPTY_TREE
from pit_server.store.pack_uploads import check_name
from pit_server.store.remotes import remote
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.reach import reach
from pit_server.store.remotes.remote import Remote

REACH_S = 10.0  # for a remote to answer while a client waits
KNOWN_S = 600.0  # how long a successful answer of a remote is cached
MOST_KNOWN = 10_000
_answered: dict[tuple[int, str, str], float] = {}


def check_offer(offer: Offer) -> Remote | None:
    """Validate an offer and return its remote."""
    check_hash("tree", offer.tree)
    if len(offer.history) > MAX_HISTORY:
        raise Problem("too_many", f"a history has at most {MAX_HISTORY} commits", status=422)
    for commit in (*offer.history, *([offer.base] if offer.base else [])):
        check_hash("commit", commit)
    return remote.parse(offer.remote) if offer.remote is not None else None


def answer(
    sources: Sources, user_id: int, offer: Offer, place: Remote | None, credential: Credential | None
) -> OfferAnswer:
    """What has to be sent of the offer; an unusable remote is reported in the answer, not as an error."""
    store = sources.store(user_id)
    if offer.tree == EMPTY_TREE or store.marked(trees=[offer.tree]):
        return OfferAnswer(complete=True, base=None)
    known = store.marked(commits=offer.history)
    if place:
        known |= sources.mirror(place).marked(commits=offer.history)
    base = next((commit for commit in offer.history if commit in known), None)
    if base or place is None or offer.base is None:
        return OfferAnswer(complete=False, base=base)
    try:
        _check_answers(sources, user_id, place, credential)
    except Problem as problem:
        return OfferAnswer(complete=False, base=None, why=problem.message)
    return OfferAnswer(complete=False, base=offer.base)


def check_query(asked: MissingObjects) -> Remote | None:
    if len(asked.objects) > MAX_OBJECTS or len(asked.large) > MAX_OBJECTS:
        raise Problem("too_many", f"at most {MAX_OBJECTS} objects are asked for at a time", status=422)
    for name in asked.objects:
        check_hash("object", name)
    for file in asked.large:
        check_name(file.oid)
        if file.size < 0:
            raise Problem("bad_field", f"a large file has no size of {file.size}", status=422)
    return remote.parse(asked.remote) if asked.remote is not None else None


def list_missing(
    sources: Sources, user_id: int, asked: MissingObjects, place: Remote | None, credential: Credential | None
) -> MissingObjects:
    """The objects and large files that have to be sent."""
    store = sources.store(user_id)
    store.create()
    if place:
        store.add_alternate(sources.mirror(place))
    large = LargeFiles(sources.data, sources.settings, user_id, user_id, place, credential)
    wanted = large.missing([Pointer(file.oid, file.size) for file in asked.large])
    return replace(
        asked,
        objects=tuple(store.git.missing(*asked.objects)),
        large=tuple(LfsFile(pointer.oid, pointer.size) for pointer in wanted),
    )


def forget_answer(root: Path, user_id: int, place: Remote, credential: Credential | None) -> None:
    """Drop the cached answer of a remote from which a fetch failed."""
    _answered.pop(_key(root, user_id, place, credential), None)


def _key(root: Path, user_id: int, place: Remote, credential: Credential | None) -> tuple[int, str, str]:
    # With the credential, because a new one may be wrong.
    return (hash((user_id, credential)) if credential else 0, place.text, str(root))


def _check_answers(sources: Sources, user_id: int, place: Remote, credential: Credential | None) -> None:
    """Raise a Problem if the remote does not answer."""
    whose = _key(sources.data.root, user_id, place, credential)
    if time.monotonic() - _answered.get(whose, -KNOWN_S) < KNOWN_S:
        return
    store = sources.store(user_id)
    store.create()
    with reach(place, sources.settings, credential) as access:
        if not fetch.answers(store, place, access, REACH_S):
            raise Problem("remote_not_fetchable", f"{place.text} does not answer the head", status=422)
    if len(_answered) >= MOST_KNOWN:
        _answered.clear()
    _answered[whose] = time.monotonic()
