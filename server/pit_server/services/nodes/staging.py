"""Staging for nodes without shared storage: they fetch and return the directory of an attempt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import is_element, job_name
from pit_protocol.problem import Problem
from pit_protocol.states import Outcome
from pit_server.db.database import Database
from pit_server.db.models import IS_LIVE, Attempt, Job, Node, Process
from pit_server.services import audit
from pit_server.services.files import unix_ids
from pit_server.services.nodes import worker_session
from pit_server.services.users import tokens
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import DataRoot
from pit_server.store.files import archive, tar_extract
from pit_server.store.files.domain_files import Domain, Kind, Ownership, parse_path
from pit_server.store.files.upload_parts import Readable


@dataclass(frozen=True)
class AttemptFiles:
    """An attempt's directory, and who owns the files in it."""

    attempt_id: int
    user_id: int
    label: str
    directory: Path
    ownership: Ownership
    shared_tree: Path | None = None  # of the array, for an element

    def open(self) -> Domain:
        return Domain(self.directory, self.label, self.ownership)


# A lost attempt may have gone on; its results are still its user's.
_IS_LOST = (Job.outcome == Outcome.LOST) & Job.removed_at.is_(None)


def find(
    database: Database,
    caller: Caller,
    data: DataRoot,
    job: int,
    attempt: int,
    epoch: int,
    *,
    now: float,
    brings: bool = False,
) -> AttemptFiles:
    """An attempt with a process on the caller's node; raises a Problem for all others.

    With `brings`, the caller only returns files, and the attempt may also be a lost one.
    """
    with database.read() as session:
        node = session.execute(select(Node.epoch, Node.revision).where(Node.id == caller.node_id)).one()
        worker_session.check(node, caller.name, epoch)
        row = session.execute(
            select(Attempt.id, Job.user_id)
            .join(Job, Job.id == Attempt.job_id)
            .join(Process, Process.attempt_id == Attempt.id)
            .where(Attempt.job_id == job, Attempt.number == attempt, Job.attempt == attempt)
            .where(Process.node_id == caller.node_id, IS_LIVE | _IS_LOST if brings else IS_LIVE)
            .limit(1)
        ).one_or_none()
        if row is not None:
            owner = _ownership(session, row.user_id)
            label, tree = f"job {job_name(job)}", data.array_tree(job) if is_element(job) else None
            return AttemptFiles(row.id, row.user_id, label, data.attempt(job, attempt), owner, tree)
    with database.write() as session:
        audit.note(session, caller.actor, "asked for another node's files", f"job:{job_name(job)}", now=now)
    raise Problem("not_yours", f"no process of job {job_name(job)} runs on node {caller.name}", status=403)


def issue_token(session: Session, caller: Caller, files: AttemptFiles, *, now: float) -> str:
    """Issue a token that gives the attempt its user's data on this node; revokes the previous one."""
    label = caller.actor
    tokens.revoke_of_attempts(session, [files.attempt_id], label)
    _, text = tokens.issue(
        session, user_id=files.user_id, now=now, expires_at=None, label=label, attempt_id=files.attempt_id
    )
    return text


def stream(files: AttemptFiles) -> Iterator[bytes]:
    """The directory as a tar with a checksum at its end."""
    also = archive.members(files.shared_tree, "./src") if files.shared_tree else ()
    with files.open() as domain:
        yield from archive.tar_directory(domain, "", ".", also)


def take_in(files: AttemptFiles, body: Readable) -> int:
    """Write the entries that changed on the node; returns how many. Idempotent."""
    with files.open() as domain:
        return tar_extract.extract(domain, "", body)[0]


def remove(files: AttemptFiles, paths: Sequence[str]) -> int:
    """Remove what was removed on the node, deepest paths first; returns how many existed."""
    removed = 0
    with files.open() as domain:
        for text in sorted(paths, reverse=True):
            path = parse_path(text.encode(errors="surrogateescape"))
            entry = domain.get_entry(path) if path else None
            if entry is None:
                continue
            if entry.kind is Kind.DIRECTORY and any(domain.entries(path)):
                continue  # another node has written into it
            domain.remove(path)
            removed += 1
        domain.sync()
    return removed


def _ownership(session: Session, user_id: int) -> Ownership:
    account = unix_ids.find_account(session, user_id)
    return Ownership(account.uid, account.gid) if account else Ownership()
