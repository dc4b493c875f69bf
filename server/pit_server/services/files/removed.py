"""Jobs, users and groups that are removed: to the trash, back, or for good.

The database decides in one transaction whether something is there or in the trash. The files of a
job and the home of a user stay where they are, so there is nothing to move. The directory of a
group is moved afterwards, because a new group may take its name.
"""

import secrets
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol import atomic_file
from pit_protocol.paths import quote_path
from pit_protocol.problem import Problem
from pit_server import failpoints
from pit_server.db.models import Discard, Group, Job, User
from pit_server.services import cluster
from pit_server.services.jobs import jobs
from pit_server.services.users import access, accounts, groups, permissions
from pit_server.services.users.permissions import Action
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import DataRoot
from pit_server.store.files.rename import move_new


class Kind(StrEnum):
    """What an entry of the trash is."""

    FILES = "files"
    JOB = "job"
    USER = "user"
    GROUP = "group"


def note(
    session: Session,
    domain: str,
    actor: str,
    *,
    now: float,
    path: str = "",
    kind: Kind = Kind.FILES,
    record: dict[str, Any] | None = None,
) -> Discard:
    """Record what goes to the trash; files are moved to its place after the commit."""
    place = f"{domain.replace(':', '-')}-{int(now)}-{secrets.token_hex(6)}"
    row = Discard(
        domain=domain,
        path=quote_path(path),
        place=place,
        actor=actor,
        at=now,
        kind=kind,
        record=record or {},
        is_purged=False,
    )
    session.add(row)
    session.flush()
    return row


def remove_job(session: Session, caller: Caller, number: int, *, now: float) -> Discard:
    jobs.remove(session, caller, number, now=now)
    return note(session, f"job:{number}", caller.name, now=now, kind=Kind.JOB)


def remove_user(session: Session, caller: Caller, user: User, *, now: float) -> Discard:
    record = accounts.remove(session, caller, user, now=now)
    return note(session, f"user:{user.name}", caller.name, now=now, kind=Kind.USER, record=record)


def remove_group(session: Session, caller: Caller, name: str, *, now: float) -> Discard:
    """Remove a group; the caller finishes the move of its directory after the commit."""
    record = groups.remove(session, name)
    return note(session, f"group:{name}", caller.name, now=now, kind=Kind.GROUP, record=record)


def finish_moves(session: Session, data: DataRoot) -> None:
    """Move the directories of removed groups to the trash, also those that a killed head left."""
    cluster.lock(session)
    there = set(session.execute(select(Group.name)).scalars())
    is_group = (Discard.kind == Kind.GROUP) & Discard.is_purged.is_(False)
    for row in session.execute(select(Discard).where(is_group).order_by(Discard.id.desc())).scalars():
        source, target = data.group(_name(row)), data.trash / row.place
        if _name(row) not in there and source.is_dir() and not target.exists():
            failpoints.reach("group-recorded")
            atomic_file.move(source, target)


def may_restore(session: Session, caller: Caller, row: Discard) -> bool:
    """Whether the caller might have removed this job, user or group."""
    if row.kind == Kind.JOB:
        job = session.get(Job, int(_name(row)))
        return job is not None and permissions.allows(
            Action.CHANGE_JOB, access.relations_to_job(session, caller, job)
        )
    return caller.is_admin


def restore(session: Session, data: DataRoot, row: Discard) -> None:
    """Bring back a job, user or group, in the transaction that deletes its entry."""
    if row.kind == Kind.JOB:
        jobs.restore(session, int(_name(row)))
    elif row.kind == Kind.USER:
        accounts.restore(session, _name(row), row.record)
    else:
        _restore_group(session, data, row)


def _restore_group(session: Session, data: DataRoot, row: Discard) -> None:
    finish_moves(session, data)
    groups.restore(session, _name(row), row.record)
    source, target = data.trash / row.place, data.group(_name(row))
    if not source.exists():
        data.make_group(_name(row))
        return
    try:
        move_new(source, target)  # before the commit: a killed head finds no group, and moves it back
    except FileExistsError:
        hint = "ask the admin of the head's machine"
        raise Problem("exists", f"{target} is in the way", hint, status=409) from None


def scrub(session: Session, row: Discard) -> None:
    """Mark an entry as deleted for good, and what else the trash has of it; the files go next."""
    row.is_purged = True
    if row.kind == Kind.FILES:
        return
    domain = row.domain
    if row.kind == Kind.JOB:
        jobs.scrub(session, int(_name(row)))
    elif row.kind == Kind.USER:
        accounts.scrub(session, _name(row))
    else:
        domain = groups.removed_domain(_name(row), row.record)
    theirs = (Discard.domain == domain) & (Discard.kind == Kind.FILES)
    session.execute(update(Discard).where(theirs).values(is_purged=True))


def places(data: DataRoot, row: Discard) -> list[Path]:
    """The files and directories of an entry."""
    if row.kind == Kind.JOB:
        number = int(_name(row))
        return [data.job(number), data.logs(number)]
    if row.kind == Kind.USER:
        return [data.home(_name(row))]
    return [data.trash / row.place]


def _name(row: Discard) -> str:
    """The name of a job, user or group; a job's is its number."""
    return row.domain.partition(":")[2]
