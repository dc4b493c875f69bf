"""The code of jobs, read from the store and never from a directory that a job can write."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import DiffStat, FileChange
from pit_protocol.problem import Problem
from pit_server.services.jobs import jobs
from pit_server.services.snapshots import origins
from pit_server.services.snapshots.lfs import LargeFiles
from pit_server.services.snapshots.origins import Origin
from pit_server.services.snapshots.sources import Sources
from pit_server.services.users import secrets
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import storable
from pit_server.store.git import checkout, diffs, lfs_pointers, tree_tar
from pit_server.store.git.command import Git
from pit_server.store.git.lfs_pointers import Pointer
from pit_server.store.git.repository import EMPTY_TREE
from pit_server.store.remotes import remote
from pit_server.store.remotes.credential import Credential

READ_S = 6 * 3600.0  # for a client to read all of it
MAX_CHANGES = 10_000  # files that are listed one by one


@dataclass(frozen=True)
class Code:
    """A job's snapshot, for a reader who may see the job."""

    number: int
    reader_id: int
    origin: Origin
    credential: Credential | None  # of the reader, for the snapshot's remote


def find(session: Session, caller: Caller, number: int, home: Path) -> Code:
    """The code of a job that the caller may see."""
    job = jobs.find(session, caller, number)
    place = remote.parse(job.remote) if job.remote else None
    reader_id = caller.user_id or 0
    credential = secrets.get_credential(session, home, reader_id, place)
    return Code(job.id, reader_id, origins.origin_of(job), credential)


def archive(sources: Sources, code: Code) -> Iterator[bytes]:
    """The snapshot's tree as a tar; a Problem before the first byte if it is gone."""
    git = _git(sources, code)
    snapshot = code.origin.snapshot
    large: dict[bytes, Pointer] = {}
    if not snapshot.keeps_pointers:
        with checkout.index_of(git, snapshot.tree) as indexed:
            large = lfs_pointers.find(indexed)
    place = remote.parse(snapshot.remote) if snapshot.remote else None
    files = LargeFiles(
        sources.data, sources.settings, code.reader_id, code.origin.store_id, place, code.credential
    )
    files.fetch_all(list(large.values()))

    def locate(pointer: Pointer) -> Path:
        path = files.get(pointer)
        if path is None:
            raise Problem("large_file_missing", f"large file {pointer.oid[:12]} is gone", status=410)
        return path

    return _started(tree_tar.stream(git, snapshot.tree, large, locate))


def patch(sources: Sources, code: Code, other: Code | None, *, binary: bool) -> Iterator[bytes]:
    """Uncommitted changes, or the differences between two jobs, as a patch."""
    return _started(diffs.patch(*_pair(sources, code, other), binary=binary))


def stat(sources: Sources, code: Code, other: Code | None) -> DiffStat:
    """The same, counted."""
    files = added = removed = 0
    shown: list[FileChange] = []
    for change in diffs.changes(*_pair(sources, code, other)):
        files += 1
        added += change.added or 0
        removed += change.removed or 0
        if len(shown) < MAX_CHANGES:
            shown.append(FileChange(storable(change.path), change.added, change.removed))
    return DiffStat(files, added, removed, shown)


def _pair(sources: Sources, code: Code, other: Code | None) -> tuple[Git, str, str]:
    """Two trees, and a git that has the objects of both."""
    git = _git(sources, code)
    mine = code.origin.snapshot
    if other is None:
        old = mine.committed or EMPTY_TREE
        if not sources.store(code.origin.store_id).marked(trees=[old]):
            raise origins.gone(code.number, status=410)
        return git, old, mine.tree
    theirs = _git(sources, other)
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(theirs.directory / "objects")}
    both = git if theirs.directory == git.directory else replace(git, env=env)
    return both, mine.tree, other.origin.snapshot.tree


def _git(sources: Sources, code: Code) -> Git:
    store = sources.store(code.origin.store_id)
    if not origins.is_here(sources, code.origin):
        raise origins.gone(code.number, status=410)
    store.create()
    return replace(store.git, timeout_s=READ_S)


def _started(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Read the first piece now, so that an immediate error is still answered as a Problem."""
    first = next(pieces, b"")

    def all_pieces() -> Iterator[bytes]:
        yield first
        yield from pieces

    return all_pieces()
