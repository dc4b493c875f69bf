"""Answering offers: what of a snapshot the head has, can get by itself, or must be sent."""

import time
from dataclasses import replace
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.submission import MAX_HISTORY, MAX_OBJECTS, Demand, Lacking, LargeFile, Offer
from pit_server.services.large_files import LargeFiles
from pit_server.services.remotes import check_hash
from pit_server.services.sources import Sources
from pit_server.store import fetching, remote
from pit_server.store.credential import Credential
from pit_server.store.pointers import Pointer
from pit_server.store.reaching import reach
from pit_server.store.remote import Remote
from pit_server.store.repository import EMPTY_TREE
from pit_server.store.uploads import check_name

REACH_S = 10.0  # for a remote to answer while a client waits
KNOWN_S = 600.0  # for which an answer is believed: asking again would cost more than it tells
MOST_KNOWN = 10_000
_answered: dict[tuple[int, str, str], float] = {}


def check_offer(offer: Offer) -> Remote | None:
    """The offer's remote; a Problem for what no honest client sends."""
    check_hash("tree", offer.tree)
    if len(offer.history) > MAX_HISTORY:
        raise Problem("too_many", f"a history has at most {MAX_HISTORY} commits", status=422)
    for commit in (*offer.history, *([offer.base] if offer.base else [])):
        check_hash("commit", commit)
    return remote.parse(offer.remote) if offer.remote is not None else None


def answer(
    sources: Sources, user_id: int, offer: Offer, place: Remote | None, credential: Credential | None
) -> Demand:
    """What has to be sent of the offer; a remote that is of no use is told, and no error."""
    store = sources.store(user_id)
    if offer.tree == EMPTY_TREE or store.marked(trees=[offer.tree]):
        return Demand(complete=True, base=None)
    known = store.marked(commits=offer.history)
    if place:
        known |= sources.mirror(place).marked(commits=offer.history)
    base = next((commit for commit in offer.history if commit in known), None)
    if base or place is None or offer.base is None:
        return Demand(complete=False, base=base)
    try:
        _check_answers(sources, user_id, place, credential)
    except Problem as problem:
        return Demand(complete=False, base=None, why=problem.message)
    return Demand(complete=False, base=offer.base)


def check_lacking(asked: Lacking) -> Remote | None:
    if len(asked.objects) > MAX_OBJECTS or len(asked.large) > MAX_OBJECTS:
        raise Problem("too_many", f"at most {MAX_OBJECTS} objects are asked for at a time", status=422)
    for name in asked.objects:
        check_hash("object", name)
    for file in asked.large:
        check_name(file.oid)
        if file.size < 0:
            raise Problem("bad_field", f"a large file has no size of {file.size}", status=422)
    return remote.parse(asked.remote) if asked.remote is not None else None


def lacking(
    sources: Sources, user_id: int, asked: Lacking, place: Remote | None, credential: Credential | None
) -> Lacking:
    """Those of the objects that have to be sent."""
    store = sources.store(user_id)
    store.create()
    if place:
        store.borrow(sources.mirror(place))
    large = LargeFiles(sources.data, sources.settings, user_id, user_id, place, credential)
    wanted = large.lacking([Pointer(file.oid, file.size) for file in asked.large])
    return replace(
        asked,
        objects=tuple(store.git.lacks(*asked.objects)),
        large=tuple(LargeFile(pointer.oid, pointer.size) for pointer in wanted),
    )


def doubt(root: Path, user_id: int, place: Remote, credential: Credential | None) -> None:
    """The remote did not give what was fetched: ask it again before it is counted on."""
    _answered.pop(_key(root, user_id, place, credential), None)


def _key(root: Path, user_id: int, place: Remote, credential: Credential | None) -> tuple[int, str, str]:
    # By the credential itself, for a new one may not be right.
    return (hash((user_id, credential)) if credential else 0, place.text, str(root))


def _check_answers(sources: Sources, user_id: int, place: Remote, credential: Credential | None) -> None:
    """Raise a Problem if the head does not get an answer from the remote."""
    whose = _key(sources.data.root, user_id, place, credential)
    if time.monotonic() - _answered.get(whose, -KNOWN_S) < KNOWN_S:
        return
    store = sources.store(user_id)
    store.create()
    with reach(place, sources.settings, credential) as access:
        if not fetching.answers(store, place, access, REACH_S):
            raise Problem("remote_not_fetchable", f"the head gets no answer from {place.text}", status=422)
    if len(_answered) >= MOST_KNOWN:
        _answered.clear()
    _answered[whose] = time.monotonic()
