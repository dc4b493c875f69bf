"""Garbage collection of large files that no snapshot needs.

The mtime of a cached file is when it was last used or needed. So a file that a client was just asked not
to send, or that a job in preparation is about to use, is never old.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pit_protocol.durations import DAY_S
from pit_server.services.snapshots.lfs import LAST_USE
from pit_server.services.snapshots.sources import Sources
from pit_server.store.git import checkout, lfs_pointers
from pit_server.store.git.repository import EMPTY_TREE

Kept = tuple[int, int, str]  # user id of the store, user id of the job, tree


def clean(sources: Sources, kept: Iterable[Kept], *, now: float) -> None:
    """Delete files that were not needed for `large_file_days`; raises GitFailed if that is unclear."""
    place, days = sources.data.large_files(), sources.settings.large_file_days
    if not place.exists():
        return
    needed = _needed(sources, set(kept))
    for cache in place.iterdir():
        if cache.name == "needs":
            continue
        for path in cache.glob("*/*/*"):
            with suppress(FileNotFoundError):
                if path.name in needed[cache.name]:
                    os.utime(path, (now, now))
                elif days:
                    delete_old(path, now - max(days, 1.0) * DAY_S)


def delete_old(path: Path, before: float) -> None:
    """Delete a file that was not used since `before`."""
    with LAST_USE:  # a concurrent user either came first, so that it is not old, or finds it gone
        if path.stat().st_mtime < before:
            path.unlink()


def _needed(sources: Sources, kept: set[Kept]) -> defaultdict[str, set[str]]:
    """The large files that snapshots need, by the name of the cache they may be in."""
    needed: defaultdict[str, set[str]] = defaultdict(set)
    notes = sources.data.large_files() / "needs"
    notes.mkdir(mode=0o700, exist_ok=True)
    for store_id, user_id, tree in kept:
        found = _list_large(sources, notes / tree, store_id, tree)
        for owner in (None, store_id, user_id):
            needed[sources.data.large(owner).name] |= found
    trees = {tree for _, _, tree in kept}
    for note in notes.iterdir():
        if note.name not in trees:
            note.unlink()
    return needed


def _list_large(sources: Sources, note: Path, store_id: int, tree: str) -> set[str]:
    """The large files of a tree; cached in a file, because a tree never changes and scanning it is slow."""
    if note.exists():
        return set(note.read_text().split())
    store = sources.store(store_id)
    if tree == EMPTY_TREE or not store.marked(trees=[tree]):
        return set()  # not prepared yet, or never: no file could be restored
    with checkout.index_of(store.git, tree) as indexed:
        found = {pointer.oid for pointer in lfs_pointers.find(indexed).values()}
    partial = note.with_name(f"{note.name}.part")
    partial.write_text("\n".join(sorted(found)))
    partial.replace(note)
    return found
