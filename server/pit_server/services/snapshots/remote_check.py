"""Validation of hashes and remotes in submissions: nothing git could take for an option, no secrets."""

import re

from pit_protocol.messages.submission import Snapshot
from pit_protocol.problem import Problem
from pit_server.settings import Settings
from pit_server.store.remotes import remote
from pit_server.store.remotes.reach import check_protocol
from pit_server.store.remotes.remote import Remote

HASH = re.compile(r"[0-9a-f]{40}")


def check_hash(what: str, value: str) -> None:
    if not HASH.fullmatch(value):
        raise Problem("bad_hash", f"{what} {value[:70]!r} is not a full git hash", status=422)


def check_snapshot(snapshot: Snapshot) -> Remote | None:
    """Validate a snapshot and return its remote."""
    for what, value in (
        ("tree", snapshot.tree),
        ("commit", snapshot.commit),
        ("committed", snapshot.committed),
        ("base", snapshot.base),
    ):
        if value is not None:
            check_hash(what, value)
    return remote.parse(snapshot.remote) if snapshot.remote is not None else None


def check_source(place: Remote | None, settings: Settings) -> None:
    """Raise a Problem unless the head can fetch a missing base from there."""
    if place is None:
        raise Problem(
            "no_objects", "a base needs a remote to fetch it from", "send its objects in a pack", status=422
        )
    check_protocol(place, settings)
