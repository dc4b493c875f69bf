"""What a node without the head's files gets and brings: the directory of an attempt that runs there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_protocol.states import Outcome
from pit_server.db.database import Database
from pit_server.db.models import IS_LIVE, Attempt, Job, Node, Process
from pit_server.services import accounts, audit, tokens
from pit_server.services.tokens import Caller
from pit_server.store import archive, intake
from pit_server.store.beneath import Domain, Kind, Ownership, parse_path
from pit_server.store.parts import Readable
from pit_server.store.paths import DataRoot


@dataclass(frozen=True)
class Load:
    """An attempt's directory, and whose the files in it are."""

    attempt_id: int
    user_id: int
    label: str
    directory: Path
    ownership: Ownership

    def open(self) -> Domain:
        return Domain(self.directory, self.label, self.ownership)


# Who took it for lost might be wrong; what it has done is its user's all the same.
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
) -> Load:
    """An attempt of which something runs on the caller's node; raises a Problem for all others.

    Where the caller only `brings` something, it may also be one that was lost with its node.
    """
    with database.read() as session:
        current = session.execute(select(Node.epoch).where(Node.id == caller.node_id)).scalar_one()
        if current != epoch:
            raise Problem("stale_epoch", f"another worker speaks for node {caller.name} now", status=409)
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
            return Load(row.id, row.user_id, f"job {job}", data.attempt(job, attempt), owner)
    with database.write() as session:
        audit.note(session, caller.actor, "asked for another's files", f"job:{job}", now=now)
    raise Problem("not_yours", f"nothing of job {job} runs on node {caller.name}", status=403)


def issue_token(session: Session, caller: Caller, load: Load, *, now: float) -> str:
    """A token by which the attempt has its user's data on this node; the one before it ends."""
    label = caller.actor
    tokens.end_of_attempt(session, load.attempt_id, label)
    _, text = tokens.issue(
        session, user_id=load.user_id, now=now, expires_at=None, label=label, attempt_id=load.attempt_id
    )
    return text


def stream(load: Load) -> Iterator[bytes]:
    """The directory as a tar that vouches for itself."""
    with load.open() as domain:
        yield from archive.whole(domain, "", ".")


def take_in(load: Load, body: Readable) -> int:
    """Write what has changed on the node, to disk; how many entries. Sent twice, it is the same."""
    with load.open() as domain:
        return intake.take_in(domain, "", body)[0]


def remove(load: Load, paths: Sequence[str]) -> int:
    """Remove what is gone on the node; how much of it was here. The deepest come first."""
    removed = 0
    with load.open() as domain:
        for text in sorted(paths, reverse=True):
            path = parse_path(text.encode(errors="surrogateescape"))
            entry = domain.get_entry(path) if path else None
            if entry is None:
                continue
            if entry.kind is Kind.DIRECTORY and any(domain.entries(path)):
                continue  # another node has put something into it
            domain.remove(path)
            removed += 1
        domain.sync()
    return removed


def _ownership(session: Session, user_id: int) -> Ownership:
    account = accounts.find_account(session, user_id)
    return Ownership(account.uid, account.gid) if account else Ownership()
