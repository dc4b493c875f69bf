"""Prepare a job: load its data (short session), build its tree (no session), store the result (guarded).

A job that is requeued is prepared again, in the directory of its next attempt.
"""

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import is_element, job_name
from pit_protocol.messages.beat import Account
from pit_protocol.messages.submission import Snapshot
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome
from pit_protocol.system import tree_delete
from pit_server.cancellation import Cancelled, limited
from pit_server.db.database import Database
from pit_server.db.models import Job, User
from pit_server.services.files import unix_ids
from pit_server.services.jobs import dependencies, jobs, lifecycle, requeue
from pit_server.services.jobs.arrays import directories
from pit_server.services.snapshots import negotiation
from pit_server.services.snapshots.lfs import LargeFiles
from pit_server.services.snapshots.origins import snapshot_of
from pit_server.services.snapshots.sources import Sources
from pit_server.services.users import secrets
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.files.tree_copy import copy_tree
from pit_server.store.git import checkout, diffs, lfs_pointers, tree_cache
from pit_server.store.git.command import Git, GitFailed
from pit_server.store.git.lfs_pointers import Pointer
from pit_server.store.git.repository import Repository
from pit_server.store.log_stream import preparation_log
from pit_server.store.marks import read_boot_id
from pit_server.store.remotes import remote
from pit_server.store.remotes.credential import Credential
from pit_server.wakeups import Wakeups, job_topic

log = logging.getLogger(__name__)
COMPUTE = ".compute"
GIB = 1 << 30
_IS_DUE = (Job.state == JobState.PREPARING) & ~dependencies.NEEDS_KEEP | requeue.IS_DUE


@dataclass(frozen=True)
class PreparationInput:
    """Everything needed to prepare one job, as plain values."""

    number: int
    attempt: int  # that is prepared
    requeued_for: str  # why the attempt before ended; empty: there was none
    faults: int  # so often could a node not start the job
    user_id: int
    user: str
    store_id: int  # user whose object store has the snapshot
    snapshot: Snapshot
    credential: Credential | None  # for the snapshot's remote
    needs_script: bool
    keep: Path | None  # keep directory of the attempt before, or of the job that it continues
    account: Account | None  # owner of the files
    groups: tuple[tuple[Path, int], ...]  # directory and gid of each of the user's groups
    is_array: bool = False


@dataclass(frozen=True)
class DiffSize:
    """The size of the uncommitted changes."""

    files: int | None = None
    added: int | None = None
    removed: int | None = None


class Due(NamedTuple):
    """A job that is new, or is to be requeued."""

    user_id: int
    state: str
    attempt: int  # the current one


def list_due(session: Session) -> dict[int, Due]:
    """The jobs that are to be prepared, in order."""
    query = select(Job.id, Job.user_id, Job.state, Job.attempt).where(_IS_DUE).order_by(Job.id)
    return {row.id: Due(row.user_id, row.state, row.attempt) for row in session.execute(query)}


def prepare(database: Database, data: DataRoot, settings: Settings, number: int) -> None:
    """Prepare one job: it is waiting afterwards, or has failed with a reason, or was stopped meanwhile."""
    hint = "an admin can raise `prepare_timeout_s`"
    with (
        database.wakeups.subscribe(job_topic(number)) as waiter,
        limited(settings.prepare_timeout_s, _Wanted(database, number, waiter), "the preparation", hint),
    ):
        _prepare(database, data, settings, number)


def _prepare(database: Database, data: DataRoot, settings: Settings, number: int) -> None:
    try:
        with database.read() as session:
            work = _load(session, data, settings, number)
    except Problem as problem:
        _apply(database, number, None, problem.message)
        return
    if work is None:
        return
    if work.faults > settings.max_requeues:
        _apply(database, number, None, requeue.describe_poison(work.faults, work.requeued_for))
        return
    write_log = _LogWriter(database.wakeups, data, work)
    try:
        diff_size = _build(work, data, settings, write_log)
    except (Problem, Cancelled) as error:
        found = error.problem if isinstance(error, Cancelled) else error
        reason = f"{found.message}; {found.hint}" if found.hint else found.message
        _apply(database, number, None, reason)
    except (GitFailed, OSError) as error:
        _apply(database, number, None, f"the tree could not be built: {error}")
    else:
        event = JobEvent.REQUEUED if work.requeued_for else JobEvent.PREPARED
        _apply(database, number, event, work.requeued_for, diff_size)
        if work.snapshot.pack:
            data.upload(work.user_id, work.snapshot.pack).unlink(missing_ok=True)
    finally:
        tree_delete.delete(_partial(data, work))  # what there is of one that failed


def _partial(data: DataRoot, work: PreparationInput) -> Path:
    """The attempt's directory while it is built."""
    target = data.attempt(work.number, work.attempt)
    return target.with_name(f"{target.name}.part")


class _Wanted:
    """Whether a job is still to be prepared; asks the database when something has happened to the job."""

    def __init__(self, database: Database, number: int, waiter: threading.Event) -> None:
        self._database, self._number, self._waiter = database, number, waiter
        self._is_wanted = True

    def __call__(self) -> bool:
        if self._waiter.is_set():
            self._waiter.clear()
            with self._database.read() as session:
                due = select(Job.id).where(Job.id == self._number, _IS_DUE)
                self._is_wanted = session.execute(due).first() is not None
        return self._is_wanted


class _LogWriter:
    """Appends lines to the job's log."""

    def __init__(self, wakeups: Wakeups, data: DataRoot, work: PreparationInput) -> None:
        self._wakeups = wakeups
        self._stream = preparation_log(data, work.number)
        self._number = work.number

    def __call__(self, text: str) -> None:
        self._stream.append(text.encode(errors="replace") + b"\n", time.time())
        self._wakeups.notify([job_topic(self._number)])


def _load(session: Session, data: DataRoot, settings: Settings, number: int) -> PreparationInput | None:
    query = select(Job, User.name, User.is_admin).join(User, User.id == Job.user_id)
    owner = session.execute(query.where(Job.id == number, _IS_DUE)).one_or_none()
    if owner is None:
        return None  # stopped in the meantime
    job, user = owner.Job, owner.name
    is_new = job.state == JobState.PREPARING
    keep = None
    options = jobs.options_of(job)
    if not is_new:
        keep = data.attempt(number, job.attempt) / "keep"
    elif options.continues is not None:
        # Check again: the user may have lost access to it since.
        continued = jobs.find(
            session, Caller(job.user_id, None, user, is_admin=owner.is_admin), options.continues
        )
        attempt = continued.attempt
        keep = data.attempt(options.continues, attempt) / "keep"
    account = unix_ids.find_account(session, job.user_id)
    gids = unix_ids.gids_of_user(session, job.user_id) if account else {}
    places = tuple((data.group(name), gid) for name, gid in gids.items())
    place = remote.parse(job.remote) if job.remote else None
    return PreparationInput(
        number,
        job.attempt if is_new else job.attempt + 1,
        "" if is_new else requeue.describe(session, number, job.attempt),
        0 if is_new else requeue.count(session, number, [requeue.Cause.FAULT]),
        job.user_id,
        user,
        job.store_id or job.user_id,
        snapshot_of(job),
        secrets.get_credential(session, settings.home, job.user_id, place),
        options.command is None,
        keep,
        account,
        places,
        job.array_size is not None,
    )


def _build(work: PreparationInput, data: DataRoot, settings: Settings, write_log: _LogWriter) -> DiffSize:
    """Build the attempt's directory; it appears only when it is complete."""
    if is_element(work.number):
        _build_element(work, data, write_log)
        return DiffSize()
    began = time.monotonic()
    target, partial = data.attempt(work.number, work.attempt), _partial(data, work)
    for leftover in (partial, target):  # of a head that was killed while it prepared this job
        if not tree_delete.delete(leftover):
            raise OSError(f"{leftover} cannot be deleted")
    partial.mkdir(mode=0o755, parents=True)
    store = _write_source(work, data, settings, partial / "src", write_log)
    if work.needs_script and not (partial / "src" / COMPUTE).is_file():
        raise Problem("no_script", f"the project has no {COMPUTE}", "add one, or give commands with `-d`")
    home = data.home(work.user)
    home.mkdir(mode=0o700, exist_ok=True)
    if work.is_array:
        directories.protect(partial / "src")
    else:
        _copy_keep(work, partial / "keep", write_log)
    if work.account:
        for directory in (home,) if work.is_array else (partial, home):
            unix_ids.give_once(directory, work.account)
    for directory, gid in work.groups:
        unix_ids.open_group(directory, gid)
    partial.rename(target)
    diff_size = _count(store.git, work.snapshot)
    what = f"commit {work.snapshot.commit[:12]}" if work.snapshot.commit else "the project"
    changed = ""
    if diff_size.files:
        changed = f" with {diff_size.files:,} changed file{'' if diff_size.files == 1 else 's'}"
    write_log(f"{what}{changed} checked out in {time.monotonic() - began:.2f} s")
    return diff_size


def _write_source(
    work: PreparationInput, data: DataRoot, settings: Settings, target: Path, write_log: _LogWriter
) -> Repository:
    """Copy the tree of an earlier job, or fetch what is missing and check it out; returns its repository."""
    snapshot = work.snapshot
    pack = data.upload(work.user_id, snapshot.pack) if snapshot.pack else None
    cache = tree_cache.open_cache(
        data.caches(), read_boot_id(), work.store_id, int(settings.tree_cache_gib * GIB)
    )
    sources = Sources(data, settings, write_log)
    try:
        is_here = cache.has(snapshot.tree)
        store = sources.gather(work.store_id, snapshot, pack, work.credential, is_checked_out=is_here)
    except Problem:
        if snapshot.remote:
            negotiation.forget_answer(
                data.root, work.store_id, remote.parse(snapshot.remote), work.credential
            )
        raise
    if not cache.copy(snapshot.tree, target):
        found = _check_out(store, snapshot, target)
        if found:
            write_log(f"{len(found):,} Git LFS file{'' if len(found) == 1 else 's'}")
            _large_files(work, data, settings).replace_pointers(found, target)
        elif found is not None:
            cache.add(snapshot.tree, target)
    return store


def _check_out(store: Repository, snapshot: Snapshot, target: Path) -> dict[bytes, Pointer] | None:
    """Write the tree to a new directory; its Git LFS pointers, or None if they are wanted as they are."""
    target.mkdir()
    with store.whole(snapshot.tree), checkout.index_of(store.git, snapshot.tree) as indexed:
        checkout.check_out(indexed, target)
        return None if snapshot.keeps_pointers else lfs_pointers.find(indexed)


def _build_element(work: PreparationInput, data: DataRoot, write_log: _LogWriter) -> None:
    """Build the directory of another attempt of an element, which needs no tree."""
    target, partial = data.attempt(work.number, work.attempt), _partial(data, work)
    for leftover in (partial, target):
        if not tree_delete.delete(leftover):
            raise OSError(f"{leftover} cannot be deleted")
    partial.mkdir(mode=0o755, parents=True)
    _copy_keep(work, partial / "keep", write_log)
    if work.account:
        unix_ids.give_once(partial, work.account)
    partial.rename(target)


def _large_files(work: PreparationInput, data: DataRoot, settings: Settings) -> LargeFiles:
    place = remote.parse(work.snapshot.remote) if work.snapshot.remote else None
    return LargeFiles(data, settings, work.user_id, work.store_id, place, work.credential)


def _count(git: Git, snapshot: Snapshot) -> DiffSize:
    if snapshot.committed is None:
        return DiffSize()
    if snapshot.committed == snapshot.tree:
        return DiffSize(0, 0, 0)
    found = list(diffs.changes(git, snapshot.committed, snapshot.tree))
    added, removed = (change.added or 0 for change in found), (change.removed or 0 for change in found)
    return DiffSize(len(found), sum(added), sum(removed))


def _copy_keep(work: PreparationInput, target: Path, write_log: _LogWriter) -> None:
    source = work.keep
    is_there = source is not None and source.is_dir() and not source.is_symlink()
    if source is None or (work.requeued_for and not is_there):
        target.mkdir()
        return
    whose = f"try {work.attempt - 1}" if work.requeued_for else f"job {source.parent.parent.name}"
    if not is_there:
        raise Problem("no_keep", f"the keep directory of {whose} no longer exists")
    copy_tree(source, target)
    write_log(f"copied the keep directory of {whose}")


def _apply(
    database: Database,
    number: int,
    done: JobEvent | None,
    reason: str = "",
    diff_size: DiffSize | None = None,
) -> None:
    """Advance the job by the event; None: it could not be prepared, for this reason."""
    outcome = None if done else Outcome.FAILED
    try:
        with database.write() as session:
            job = lifecycle.lock(session, number)
            event = done or (JobEvent.REFUSED if job.state is JobState.PREPARING else JobEvent.SETTLED)
            lifecycle.advance(session, job, event, now=time.time(), reason=reason, outcome=outcome)
            if diff_size and diff_size != DiffSize():
                session.execute(
                    update(Job)
                    .where(Job.id == number)
                    .values({f"diff_{name}": count for name, count in vars(diff_size).items()})
                )
    except (lifecycle.IllegalMove, lifecycle.StaleState) as error:
        log.info("discarded the preparation of job %s: %s", job_name(number), error)
