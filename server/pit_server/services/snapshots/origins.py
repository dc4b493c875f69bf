"""Where a new job's snapshot comes from: what the client sent, or the store of an older job."""

from dataclasses import dataclass, replace

import msgspec

from pit_protocol.messages.submission import SNAPSHOT_INCOMPLETE, Snapshot
from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.models import Job
from pit_server.services.snapshots import remote_check
from pit_server.services.snapshots.sources import Sources, named_in
from pit_server.store.git.repository import EMPTY_TREE
from pit_server.store.remotes import remote


@dataclass(frozen=True)
class Origin:
    """A snapshot, and the user whose store has it or will have it."""

    snapshot: Snapshot
    store_id: int
    trouble: Problem | None = None  # why it could not be prepared

    def check(self) -> None:
        """Raise the trouble; separate from finding it, because a repeated submission ignores it."""
        if self.trouble:
            raise self.trouble


def of_submission(
    sources: Sources, user_id: int, snapshot: Snapshot, *, only_if_here: bool = False
) -> Origin:
    """Check that a snapshot is here, was sent, or can be fetched; no session may be open."""
    try:
        if only_if_here:
            _check_here(sources, user_id, snapshot)
        else:
            _check(sources, user_id, snapshot)
    except Problem as problem:
        return Origin(snapshot, user_id, problem)
    return Origin(snapshot, user_id)


def of_job(sources: Sources, number: int, found: Origin, state: str) -> Origin:
    """The snapshot of an older job, for a rerun; no session may be open."""
    if is_here(sources, found):
        return found
    if state == JobState.PREPARING:
        why = Problem(
            "still_preparing", f"job {number} is still preparing", f"`pit show {number}`", status=409
        )
    else:
        why = gone(number, status=409)
    return replace(found, trouble=why)


def is_here(sources: Sources, origin: Origin) -> bool:
    """Whether the snapshot's tree is still in its store."""
    tree = origin.snapshot.tree
    return tree == EMPTY_TREE or bool(sources.store(origin.store_id).marked(trees=[tree]))


def gone(number: int, *, status: int) -> Problem:
    return Problem(
        "snapshot_gone",
        f"the head does not have the code of job {number}",
        "`pit show` has its commit",
        status=status,
    )


def snapshot_of(job: Job) -> Snapshot:
    return Snapshot(
        tree=job.tree_hash,
        commit=job.commit_hash,
        committed=job.committed_hash,
        base=job.base_hash,
        remote=job.remote,
        remote_name=job.remote_name,
        branch=job.branch,
        diff_lines=job.diff_lines,
        pack=job.pack_sha256,
        keeps_pointers=job.keeps_pointers,
    )


def origin_of(job: Job) -> Origin:
    """The origin of an older job, for a rerun."""
    return Origin(msgspec.structs.replace(snapshot_of(job), pack=None), job.store_id or job.user_id)


def _check_here(sources: Sources, user_id: int, snapshot: Snapshot) -> None:
    trees, commits = named_in(snapshot)
    if not {*trees, *commits} <= sources.store(user_id).marked(trees=trees, commits=commits):
        raise Problem(
            SNAPSHOT_INCOMPLETE,
            f"the head does not have all objects of tree {snapshot.tree[:12]}",
            "offer the snapshot and send what is missing",
            status=409,
        )


def _check(sources: Sources, user_id: int, snapshot: Snapshot) -> None:
    store = sources.store(user_id)
    if snapshot.pack and not sources.data.upload(user_id, snapshot.pack).exists():
        if not is_here(sources, Origin(snapshot, user_id)):
            raise Problem(
                "no_such_upload", f"upload {snapshot.pack} is not here", "send it first", status=409
            )
        return
    place = remote.parse(snapshot.remote) if snapshot.remote else None
    base = [snapshot.base] if snapshot.base else []
    if base and not store.marked(commits=base) and not (place and sources.mirror(place).marked(commits=base)):
        remote_check.check_source(place, sources.settings)
    if snapshot.pack or snapshot.base or is_here(sources, Origin(snapshot, user_id)):
        return
    store.create()
    # The tree may be part of another one; the preparation checks whether it is complete.
    if not store.git.has(snapshot.tree):
        raise Problem(
            "no_objects",
            f"tree {snapshot.tree[:12]} is not here, and came neither in a pack nor with a base",
            "run again to send what is missing",
            status=422,
        )
