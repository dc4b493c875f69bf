"""The trash: what was removed, and can be restored until it is deleted for good.

Each step is recorded before it is done, and finished or dropped at the head's next start: at any time,
files are in their place or in the trash.
"""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import ColumnElement, Select, Text, cast, delete, literal, or_, select
from sqlalchemy.orm import Session

from pit_protocol.answers.files import TrashEntry
from pit_protocol.durations import DAY_S
from pit_protocol.paths import name_fields, unquote_path
from pit_protocol.problem import Problem
from pit_protocol.system import tree_delete
from pit_server import failpoints
from pit_server.db.database import Database, notify_after_commit
from pit_server.db.models import Discard, Group, Job
from pit_server.services.files import domains, removed
from pit_server.services.files.domains import Place
from pit_server.services.files.removed import Kind
from pit_server.services.users.groups import of_user
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import DataRoot
from pit_server.store.files.rename import move_new
from pit_server.wakeups import PURGE

log = logging.getLogger(__name__)
MOST = 1000  # entries of one answer

Open = Callable[[], AbstractContextManager[Session]]


def discard(
    write: Open,
    database: Database,
    data: DataRoot,
    place: Place,
    path: str,
    actor: str,
    *,
    now: float,
    most: int = 0,
) -> Discard:
    """Move a file or directory of a domain to the trash; `write` opens the transaction that records it.

    If the domain has more than `most` entries there, the oldest are deleted for good; 0: no limit.
    """
    with place.open() as domain:
        domain.entry(path)
        with write() as session:
            row = removed.note(session, place.name, actor, now=now, path=path)
            if most:
                _purge_excess(session, place.name, most)
        finish(database, data, row, lambda target: domain.move_out(path, target))
    return row


def finish(database: Database, data: DataRoot, row: Discard, move: Callable[[Path], None]) -> None:
    """Move what is recorded to its place in the trash; the record goes if that fails."""
    failpoints.reach("trash-recorded")
    target = data.trash / row.place
    try:
        move(target)
    except (Problem, OSError):
        if not os.path.lexists(target):
            _drop(database, row)
        raise
    failpoints.reach("trash-moved")


def restore(session: Session, caller: Caller, data: DataRoot, number: int) -> Discard:
    """Move something back to where it was; a Problem if something else is there now."""
    row = _find(session, caller, data, number)
    if row.kind != Kind.FILES:
        removed.restore(session, data, row)
    else:
        _restore_files(session, caller, data, row)
    failpoints.reach("restore-moved")
    session.delete(row)
    session.flush()
    return row


def _restore_files(session: Session, caller: Caller, data: DataRoot, row: Discard) -> None:
    source = data.trash / row.place
    if not os.path.lexists(source):
        raise Problem("gone", f"trash {row.id} has been deleted", status=410)
    if path := unquote_path(row.path):
        with domains.find(session, caller, data, row.domain).open() as domain:
            domain.move_in(source, path)
    else:
        _put_back(source, data.job(int(row.domain.partition(":")[2])), row.domain)


def purge(session: Session, caller: Caller, data: DataRoot, number: int) -> Discard:
    """Decide that an entry is deleted for good; a background thread deletes the files after the commit."""
    row = _find(session, caller, data, number)
    removed.scrub(session, row)
    session.flush()
    notify_after_commit(session, PURGE)
    return row


def purge_own(session: Session, caller: Caller) -> int:
    """The same for the caller's files and jobs, but not for what groups have; returns how many."""
    jobs = select(literal("job:") + cast(Job.id, Text)).where(Job.user_id == caller.user_id)
    files = (Discard.domain == f"user:{caller.name}") & (Discard.kind == Kind.FILES)
    return _purge_all(session, select(Discard).where(files | Discard.domain.in_(jobs)))


def _purge_excess(session: Session, domain: str, most: int) -> None:
    files = select(Discard).where(Discard.domain == domain, Discard.kind == Kind.FILES)
    _purge_all(session, files.order_by(Discard.id.desc()).offset(most))


def _purge_all(session: Session, query: Select[Discard]) -> int:
    rows = session.execute(query.where(Discard.is_purged.is_(False))).scalars().all()
    for row in rows:
        removed.scrub(session, row)
    session.flush()
    if rows:
        notify_after_commit(session, PURGE)
    return len(rows)


def purge_old(session: Session, days: int, *, now: float) -> None:
    """The same for everything that is in the trash for more than `days`."""
    _purge_all(session, select(Discard).where(Discard.at < now - days * DAY_S))


def delete_purged(database: Database, data: DataRoot) -> None:
    """Delete the files of purged entries, and then the entries."""
    with database.read() as session:
        rows = session.execute(select(Discard).where(Discard.is_purged)).scalars().all()
    for row in rows:
        are_gone = [tree_delete.delete(place) for place in removed.places(data, row)]
        failpoints.reach("purge-deleted")
        if all(are_gone):
            _drop(database, row)
        else:
            log.warning("trash %d (%s) cannot be deleted completely; trying again later", row.id, row.domain)


def reconcile(database: Database, data: DataRoot) -> None:
    """Finish or drop what a killed head had begun; called before this one serves requests."""
    with database.write() as session:
        removed.finish_moves(session, data)
        moved = (Discard.kind == Kind.FILES) & Discard.is_purged.is_(False)
        for row in session.execute(select(Discard).where(moved)).scalars().all():
            if not os.path.lexists(data.trash / row.place) and os.path.lexists(_origin(data, row)):
                session.delete(row)  # it was not moved yet, or is back already


def records(
    session: Session, caller: Caller, data: DataRoot, days: int, *, kind: str = "", domain: str = ""
) -> list[TrashEntry]:
    """What the caller may restore, the newest first; with `kind` and `domain` only what has these."""
    query = select(Discard).where(Discard.is_purged.is_(False)).order_by(Discard.id.desc()).limit(MOST)
    for column, value in ((Discard.kind, kind), (Discard.domain, domain)):
        if value:
            query = query.where(column == value)
    rows = session.execute(query if caller.is_admin else query.where(_is_ones_own(caller))).scalars()
    return [record(row, days) for row in rows if _may(session, caller, data, row)]


def record(row: Discard, days: int) -> TrashEntry:
    """An entry as the API shows it; it stays for that many days, 0: for ever."""
    fields = name_fields(unquote_path(row.path))
    until = row.at + days * DAY_S if days else None
    return TrashEntry(
        id=row.id, domain=row.domain, **fields, by=row.actor, at=row.at, kind=row.kind, until=until
    )


def _drop(database: Database, row: Discard) -> None:
    with database.write() as session:
        session.execute(delete(Discard).where(Discard.id == row.id))


def _find(session: Session, caller: Caller, data: DataRoot, number: int) -> Discard:
    row = session.get(Discard, number, with_for_update=True)
    if row is None or row.is_purged or not _may(session, caller, data, row):
        raise Problem(
            "no_such_trash",
            f"there is no entry {number} in the trash",
            "`pit show trash` lists them",
            status=404,
        )
    return row


def _is_ones_own(caller: Caller) -> ColumnElement[bool]:
    """A condition for what may be the caller's, so that the limit does not hide it."""
    mine = select(literal("group:") + Group.name).where(Group.id.in_(of_user(caller.user_id)))
    jobs = select(literal("job:") + cast(Job.id, Text)).where(Job.user_id == caller.user_id)
    return or_(Discard.domain == f"user:{caller.name}", Discard.domain.in_(mine), Discard.domain.in_(jobs))


def _may(session: Session, caller: Caller, data: DataRoot, row: Discard) -> bool:
    """Whether the caller may write where it was; owner and admins may restore a job's directory."""
    if row.kind != Kind.FILES:
        return removed.may_restore(session, caller, row)
    try:
        place = domains.find(session, caller, data, row.domain)
    except Problem:
        return False
    return place.may_write or caller.is_admin or place.owner == caller.name


def _origin(data: DataRoot, row: Discard) -> Path:
    """Where files were, as far as names can tell."""
    kind, _, name = row.domain.partition(":")
    directory = {"user": "home", "group": "groups", "job": "jobs"}.get(kind, kind)
    return data.root / directory / name / unquote_path(row.path)


def _put_back(source: Path, target: Path, name: str) -> None:
    try:
        move_new(source, target)
    except FileExistsError:
        raise Problem("exists", f"{name} has a directory already", status=409) from None
