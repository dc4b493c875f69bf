"""Building a job's tree: load (short session), work (no session), apply (guarded)."""

import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.beat import Account
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome
from pit_protocol.submission import Snapshot
from pit_server.bells import Bells, job_bell
from pit_server.db.database import Database
from pit_server.db.models import Job, User
from pit_server.services import accounts, jobs, lifecycle, offers, secrets
from pit_server.services.large_files import LargeFiles
from pit_server.services.log_view import prepare_stream
from pit_server.services.origins import snapshot_of
from pit_server.services.sources import Sources
from pit_server.services.tokens import Caller
from pit_server.settings import Settings
from pit_server.store import checkout, diffs, pointers, remote
from pit_server.store.credential import Credential
from pit_server.store.git import Git, GitFailed
from pit_server.store.paths import DataRoot

log = logging.getLogger(__name__)
COMPUTE = ".compute"


@dataclass(frozen=True)
class Work:
    """All that preparing one job needs, as values."""

    number: int
    attempt: int
    user_id: int
    user: str
    store_id: int  # whose store has the snapshot
    snapshot: Snapshot
    credential: Credential | None  # of the user, for the snapshot's remote
    needs_script: bool
    keep: Path | None  # of the job that it continues
    account: Account | None  # whose the files are to be
    groups: tuple[tuple[Path, int], ...]  # directories of his groups, and their gids


@dataclass(frozen=True)
class Counted:
    """How much was not committed."""

    files: int | None = None
    added: int | None = None
    removed: int | None = None


def list_preparing(session: Session) -> list[int]:
    return list(
        session.execute(select(Job.id).where(Job.state == JobState.PREPARING).order_by(Job.id)).scalars()
    )


def prepare(database: Database, data: DataRoot, settings: Settings, number: int) -> None:
    """Prepare one job: afterwards it waits, or has failed with the reason why."""
    try:
        with database.read() as session:
            work = _load(session, data, settings, number)
    except Problem as problem:
        _apply(database, number, JobEvent.REFUSED, problem.message)
        return
    if work is None:
        return
    say = _Voice(database.bells, data, work)
    try:
        counted = _build(work, data, settings, say)
    except Problem as problem:
        reason = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
        _apply(database, number, JobEvent.REFUSED, reason)
    except (GitFailed, OSError) as error:
        _apply(database, number, JobEvent.REFUSED, f"the tree could not be built: {error}")
    else:
        _apply(database, number, JobEvent.PREPARED, counted=counted)
        if work.snapshot.pack:
            data.upload(work.user_id, work.snapshot.pack).unlink(missing_ok=True)


class _Voice:
    """Writes lines into the job's log."""

    def __init__(self, bells: Bells, data: DataRoot, work: Work) -> None:
        self._bells = bells
        self._stream = prepare_stream(data, work.number, work.attempt)
        self._number = work.number

    def __call__(self, text: str) -> None:
        self._stream.append(text.encode(errors="replace") + b"\n", time.time())
        self._bells.ring([job_bell(self._number)])


def _load(session: Session, data: DataRoot, settings: Settings, number: int) -> Work | None:
    job = session.get(Job, number)
    if job is None or job.state != JobState.PREPARING:
        return None  # stopped meanwhile
    owner = session.execute(select(User.name, User.is_admin).where(User.id == job.user_id)).one()
    user = owner.name
    keep = None
    if job.continues is not None:
        # Looked up again: the user may have lost the right to see it since.
        continued = jobs.find(
            session, Caller(job.user_id, None, user, is_admin=owner.is_admin), job.continues
        )
        attempt = continued.attempt
        keep = data.attempt(job.continues, attempt) / "keep"
    account = accounts.find_account(session, job.user_id)
    gids = accounts.gids_of_user(session, job.user_id) if account else {}
    places = tuple((data.group(name), gid) for name, gid in gids.items())
    place = remote.parse(job.remote) if job.remote else None
    return Work(
        number,
        job.attempt,
        job.user_id,
        user,
        job.store_id or job.user_id,
        snapshot_of(job),
        secrets.get_credential(session, settings.home, job.user_id, place),
        job.command is None,
        keep,
        account,
        places,
    )


def _build(work: Work, data: DataRoot, settings: Settings, say: _Voice) -> Counted:
    """Make the attempt's directory: whole, or not at all."""
    began = time.monotonic()
    target = data.attempt(work.number, work.attempt)
    partial = target.with_name(f"{target.name}.part")
    for leftover in (partial, target):  # of a head that was killed at this very job
        if leftover.exists():
            shutil.rmtree(leftover)
    partial.mkdir(mode=0o755, parents=True)
    snapshot = work.snapshot
    pack = data.upload(work.user_id, snapshot.pack) if snapshot.pack else None
    try:
        store = Sources(data, settings, say).gather(work.store_id, snapshot, pack, work.credential)
    except Problem:
        if snapshot.remote:
            offers.doubt(data.root, work.store_id, remote.parse(snapshot.remote), work.credential)
        raise
    (partial / "src").mkdir()
    with store.whole(snapshot.tree), checkout.index_of(store.git, snapshot.tree) as indexed:
        checkout.check_out(indexed, partial / "src")
        if found := pointers.find(indexed):
            say(f"{len(found):,} large file{'' if len(found) == 1 else 's'} of Git LFS")
            _large_files(work, data, settings).put_in_place(found, partial / "src")
    if work.needs_script and not (partial / "src" / COMPUTE).is_file():
        raise Problem("no_script", f"the project has no {COMPUTE}", "add one, or give commands with `-d`")
    _carry_over(work.keep, partial / "keep", say)
    home = data.home(work.user)
    home.mkdir(mode=0o700, exist_ok=True)
    if work.account:
        partial.chmod(0o700)
        accounts.give(partial, work.account)
        accounts.give_home(home, work.account)
    for directory, gid in work.groups:
        accounts.open_group(directory, gid)
    partial.rename(target)
    counted = _count(store.git, snapshot)
    changed = ""
    if counted.files:
        changed = " with 1 changed file" if counted.files == 1 else f" with {counted.files:,} changed files"
    what = f"commit {snapshot.commit[:12]}" if snapshot.commit else "the project"
    say(f"{what}{changed} checked out in {time.monotonic() - began:.2f} s")
    return counted


def _large_files(work: Work, data: DataRoot, settings: Settings) -> LargeFiles:
    place = remote.parse(work.snapshot.remote) if work.snapshot.remote else None
    return LargeFiles(data, settings, work.user_id, work.store_id, place, work.credential)


def _count(git: Git, snapshot: Snapshot) -> Counted:
    if snapshot.committed is None:
        return Counted()
    found = list(diffs.changes(git, snapshot.committed, snapshot.tree))
    added, removed = (change.added or 0 for change in found), (change.removed or 0 for change in found)
    return Counted(len(found), sum(added), sum(removed))


def _carry_over(source: Path | None, target: Path, say: _Voice) -> None:
    if source is None:
        target.mkdir()
        return
    if source.is_symlink() or not source.is_dir():
        raise Problem("no_keep", f"the keep directory {source.parent.parent.name}/keep is gone")
    # Links are copied as links: the old job may have made one to anywhere.
    shutil.copytree(source, target, symlinks=True, ignore=_only_plain)
    say("the keep directory was carried over")


def _only_plain(directory: str, names: list[str]) -> set[str]:
    """Names of what must not be copied, such as a FIFO, which would hang."""
    paths = ((name, Path(directory, name)) for name in names)
    return {name for name, path in paths if not (path.is_symlink() or path.is_file() or path.is_dir())}


def _apply(
    database: Database, number: int, event: JobEvent, reason: str = "", counted: Counted | None = None
) -> None:
    outcome = Outcome.FAILED if event is JobEvent.REFUSED else None
    try:
        with database.write() as session:
            job = lifecycle.lock(session, number)
            lifecycle.advance(session, job, event, now=time.time(), reason=reason, outcome=outcome)
            if counted:
                session.execute(
                    update(Job)
                    .where(Job.id == number)
                    .values({f"diff_{name}": count for name, count in vars(counted).items()})
                )
    except (lifecycle.IllegalMove, lifecycle.Overtaken) as error:
        log.info("preparation of job %d came too late: %s", number, error)
