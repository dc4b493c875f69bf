"""Retention of code: snapshots, commits in mirrors, large files, uploads."""

import logging
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sqlalchemy import Text, cast, literal, or_, select

from pit_protocol.durations import DAY_S
from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.database import Database
from pit_server.db.models import Discard, Job
from pit_server.services.snapshots import lfs_gc
from pit_server.services.snapshots.sources import Sources
from pit_server.store import pack_uploads
from pit_server.store.git import gc
from pit_server.store.git.command import GitFailed
from pit_server.store.git.repository import Repository
from pit_server.store.remotes import remote

log = logging.getLogger(__name__)
CLEAN_S = 6 * 3600.0


@dataclass(frozen=True)
class Needed:
    """The objects that jobs still need, by store and by mirror."""

    stores: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    mirrors: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    trees: set[lfs_gc.Kept] = field(default_factory=set)  # whose large files are needed


class Retention:
    """Remembers unneeded refs, and deletes them only if they are still unneeded a day later.

    A client may just have learned that it need not send what it offered.
    """

    def __init__(self, database: Database, sources: Sources) -> None:
        self._database, self._sources = database, sources
        self._unneeded: dict[tuple[str, str], float] = {}

    def clean(self, *, now: float) -> None:
        """Delete what no job needs; no session is open while git runs."""
        needed = self._needed(now)
        data = self._sources.data
        for path in data.stores().glob("*.git"):
            _try(path, partial(self._clean_store, path, needed.stores[int(path.stem)], now))
        for path in data.mirrors().glob("*.git"):
            _try(path, partial(self._clean_mirror, path, needed.mirrors[path.stem], now))
        _try(data.large_files(), partial(lfs_gc.clean, self._sources, needed.trees, now=now))
        pack_uploads.delete_old(data.uploads(), DAY_S, now)
        for path in data.mirrors().glob("[0-9]*"):
            if path.suffix != ".git":
                shutil.rmtree(path, ignore_errors=True)  # of a version that had mirrors per user

    def _needed(self, now: float) -> Needed:
        needed = Needed()
        days = self._sources.settings.snapshot_days
        entry = (Discard.kind == "job") & Discard.is_purged.is_(False)
        is_in_trash = (literal("job:") + cast(Job.id, Text)).in_(select(Discard.domain).where(entry))
        with self._database.read() as session:
            rows = session.execute(
                select(
                    Job.store_id,
                    Job.user_id,
                    Job.remote,
                    Job.tree_hash,
                    Job.committed_hash,
                    Job.commit_hash,
                    Job.base_hash,
                    Job.state,
                    Job.since,
                    Job.keeps_pointers,
                )
                .where(or_(Job.removed_at.is_(None), is_in_trash), Job.store_id.is_not(None))
                .where(Job.array_job.is_(None))  # elements have the code of their array
            ).all()
        for row in rows:
            is_old = row.state == JobState.ENDED and row.since < now - days * DAY_S
            if days and is_old:
                continue
            named = {row.tree_hash, row.committed_hash, row.commit_hash, row.base_hash} - {None}
            needed.stores[row.store_id] |= named
            if not row.keeps_pointers:
                needed.trees.add((row.store_id, row.user_id, row.tree_hash))
            if row.remote and (key := _key(row.remote)):
                needed.mirrors[key] |= named
        return needed

    def _clean_store(self, path: Path, needed: set[str], now: float) -> None:
        store = self._at(path)
        with store.lock():
            dropped = gc.drop_refs(store, self._unneeded_refs(store, needed, now))
            if dropped or gc.is_untidy(store):
                gc.tidy(store)

    def _clean_mirror(self, path: Path, needed: set[str], now: float) -> None:
        mirror = self._at(path)
        with mirror.lock():
            unneeded = self._unneeded_refs(mirror, needed, now)
            if not unneeded:
                if gc.is_untidy(mirror):
                    gc.tidy(mirror, prune=False)
                return
            for path in self._sources.data.stores().glob("*.git"):
                store = self._at(path)
                with store.lock():
                    # Stores copy the objects they use from this mirror before it is pruned.
                    gc.copy_from_alternate(store, mirror)
            gc.drop_refs(mirror, unneeded)
            gc.tidy(mirror)

    def _at(self, path: Path) -> Repository:
        """Without the limits of a preparation, because a store may be larger than any one tree."""
        git = self._sources.at(path).git
        return Repository(replace(git, max_file_bytes=0, timeout_s=CLEAN_S))

    def _unneeded_refs(self, repository: Repository, needed: set[str], now: float) -> list[str]:
        """The refs that were not needed for a day."""
        name = repository.path.name
        refs = [ref for ref in gc.refs(repository) if ref.rpartition("/")[2] not in needed]
        current = {(name, ref) for ref in refs}
        for known in [known for known in self._unneeded if known[0] == name and known not in current]:
            del self._unneeded[known]
        for ref in refs:
            self._unneeded.setdefault((name, ref), now)
        return [ref for ref in refs if self._unneeded[name, ref] <= now - DAY_S]


def _try(path: Path, clean: Callable[[], None]) -> None:
    """Clean one place; an error, such as a full disk, must not affect the others."""
    try:
        clean()
    except (GitFailed, OSError) as error:
        log.warning("%s could not be cleaned: %s", path, error)


def _key(text: str) -> str | None:
    try:
        return remote.parse(text).key
    except Problem:
        return None
