"""Where a new job's snapshot is: to be prepared from what was sent, or in the store of an older job."""

from dataclasses import dataclass, replace

from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_protocol.submission import Snapshot
from pit_server.db.models import Job
from pit_server.services import remotes
from pit_server.services.sources import Sources
from pit_server.store import remote
from pit_server.store.repository import EMPTY_TREE


@dataclass(frozen=True)
class Origin:
    """A snapshot and whose store has it, or will have it."""

    snapshot: Snapshot
    store_id: int
    trouble: Problem | None = None  # why it could not be prepared

    def check(self) -> None:
        """Raise the trouble; apart from finding it, for a submission sent twice has none."""
        if self.trouble:
            raise self.trouble


def of_submission(sources: Sources, user_id: int, snapshot: Snapshot) -> Origin:
    """Judge whether all of a snapshot is here, was sent, or can be fetched; no session may be open."""
    try:
        _check(sources, user_id, snapshot)
    except Problem as problem:
        return Origin(snapshot, user_id, problem)
    return Origin(snapshot, user_id)


def of_job(sources: Sources, number: int, found: Origin, state: str) -> Origin:
    """The snapshot of an older job, to be run again; no session may be open."""
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
        f"the code of job {number} is not kept any more",
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
    )


def origin_of(job: Job) -> Origin:
    """The origin of an older job, for one that runs its snapshot again."""
    return Origin(replace(snapshot_of(job), pack=None), job.store_id or job.user_id)


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
        remotes.check_source(place, sources.settings)
    if snapshot.pack or snapshot.base or is_here(sources, Origin(snapshot, user_id)):
        return
    store.create()
    # It may be here as a part of another: whether all of it is, preparation finds out.
    if not store.git.has(snapshot.tree):
        raise Problem(
            "no_objects",
            f"tree {snapshot.tree[:12]} is not here, and came neither in a pack nor with a base",
            "run again: what the head lacks is sent along",
            status=422,
        )
