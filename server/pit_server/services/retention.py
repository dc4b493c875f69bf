"""What the head keeps of code, and for how long: snapshots, commits in mirrors, large files, uploads."""

import logging
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sqlalchemy import select

from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.database import Database
from pit_server.db.models import Job
from pit_server.services import large_cleaning
from pit_server.services.sources import Sources
from pit_server.store import housekeeping, remote, uploads
from pit_server.store.git import GitFailed
from pit_server.store.repository import Repository

log = logging.getLogger(__name__)
DAY_S = 86_400.0
CLEAN_S = 6 * 3600.0


@dataclass(frozen=True)
class Needed:
    """What jobs still need, by store and by mirror."""

    stores: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    mirrors: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    trees: set[large_cleaning.Kept] = field(default_factory=set)  # that run, with all their large files


class Retention:
    """Remembers what it found unneeded: it goes only if it is still so a day later.

    A client may just have been told that it need not send what it was offering.
    """

    def __init__(self, database: Database, sources: Sources) -> None:
        self._database, self._sources = database, sources
        self._unneeded: dict[tuple[str, str], float] = {}

    def clean(self, *, now: float) -> None:
        """Let go of what no job needs; no session is open while git runs."""
        needed = self._needed(now)
        data = self._sources.data
        for path in data.stores().glob("*.git"):
            _try(path, partial(self._clean_store, path, needed.stores[int(path.stem)], now))
        for path in data.mirrors().glob("*.git"):
            _try(path, partial(self._clean_mirror, path, needed.mirrors[path.stem], now))
        _try(data.large_files(), partial(large_cleaning.clean, self._sources, needed.trees, now=now))
        uploads.delete_old(data.uploads(), DAY_S, now)
        for path in data.mirrors().glob("[0-9]*"):
            if path.suffix != ".git":
                shutil.rmtree(path, ignore_errors=True)  # of a version that kept one for each user

    def _needed(self, now: float) -> Needed:
        needed = Needed()
        days = self._sources.settings.snapshot_days
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
                ).where(Job.removed_at.is_(None), Job.store_id.is_not(None))
            ).all()
        for row in rows:
            is_old = row.state == JobState.ENDED and row.since < now - days * DAY_S
            if days and is_old:
                continue
            named = {row.tree_hash, row.committed_hash, row.commit_hash, row.base_hash} - {None}
            needed.stores[row.store_id] |= named
            needed.trees.add((row.store_id, row.user_id, row.tree_hash))
            if row.remote and (key := _key(row.remote)):
                needed.mirrors[key] |= named
        return needed

    def _clean_store(self, path: Path, needed: set[str], now: float) -> None:
        store = self._at(path)
        with store.lock():
            dropped = housekeeping.drop_refs(store, self._for_long(store, needed, now))
            if dropped or housekeeping.is_untidy(store):
                housekeeping.tidy(store)

    def _clean_mirror(self, path: Path, needed: set[str], now: float) -> None:
        mirror = self._at(path)
        with mirror.lock():
            unneeded = self._for_long(mirror, needed, now)
            if not unneeded:
                if housekeeping.is_untidy(mirror):
                    housekeeping.tidy(mirror, prune=False)
                return
            for path in self._sources.data.stores().glob("*.git"):
                store = self._at(path)
                with store.lock():
                    # What stores have borrowed from here becomes their own before it goes.
                    housekeeping.give_back(store, mirror)
            housekeeping.drop_refs(mirror, unneeded)
            housekeeping.tidy(mirror)

    def _at(self, path: Path) -> Repository:
        """Without the bounds of a preparation: a store may be larger than any one tree."""
        git = self._sources.at(path).git
        return Repository(replace(git, max_file_bytes=0, timeout_s=CLEAN_S))

    def _for_long(self, repository: Repository, needed: set[str], now: float) -> list[str]:
        """The refs that nobody has needed for a day."""
        name = repository.path.name
        refs = [ref for ref in housekeeping.refs(repository) if ref.rpartition("/")[2] not in needed]
        current = {(name, ref) for ref in refs}
        for known in [known for known in self._unneeded if known[0] == name and known not in current]:
            del self._unneeded[known]
        for ref in refs:
            self._unneeded.setdefault((name, ref), now)
        return [ref for ref in refs if self._unneeded[name, ref] <= now - DAY_S]


def _try(path: Path, clean: Callable[[], None]) -> None:
    """One place that cannot be cleaned, such as on a full disk, must not keep the others from it."""
    try:
        clean()
    except (GitFailed, OSError) as error:
        log.warning("%s could not be cleaned: %s", path, error)


def _key(text: str) -> str | None:
    try:
        return remote.parse(text).key
    except Problem:
        return None
