"""The trash: removed files, which can be restored until they are deleted."""

import secrets
import shutil
from pathlib import Path

from sqlalchemy import ColumnElement, Text, cast, literal, or_, select
from sqlalchemy.orm import Session

from pit_protocol.answers.files import TrashEntry
from pit_protocol.durations import DAY_S
from pit_protocol.paths import name_fields, quote_path, unquote_path
from pit_protocol.problem import Problem
from pit_server.db.models import Discard, Group, Job
from pit_server.services.files import domains
from pit_server.services.files.domains import Place
from pit_server.services.users.groups import of_user
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import DataRoot

MOST = 1000  # entries of one answer


def note(session: Session, domain: str, path: str, place: str, actor: str, *, now: float) -> Discard:
    """Record what goes to the trash; the caller moves it next, and a rollback undoes the record."""
    row = Discard(domain=domain, path=quote_path(path), place=place, actor=actor, at=now)
    session.add(row)
    session.flush()
    return row


def discard(session: Session, data: DataRoot, place: Place, path: str, actor: str, *, now: float) -> Discard:
    """Move a file or directory of a domain to the trash."""
    with place.open() as domain:
        domain.entry(path)
        name = f"{place.name.replace(':', '-')}-{int(now)}-{secrets.token_hex(6)}"
        row = note(session, place.name, path, name, actor, now=now)
        domain.move_out(path, data.trash / name)
    return row


def restore(session: Session, caller: Caller, data: DataRoot, number: int) -> Discard:
    """Move something back to where it was; a Problem if something else is there now."""
    row = _find(session, caller, data, number)
    source = data.trash / row.place
    if not source.exists() and not source.is_symlink():
        raise Problem("gone", f"trash {number} has been deleted", status=410)
    path = unquote_path(row.path)
    if path:
        with domains.find(session, caller, data, row.domain).open() as domain:
            domain.move_in(source, path)
    else:
        _put_back(source, data.job(int(row.domain.partition(":")[2])), row.domain)
    session.delete(row)
    session.flush()
    return row


def records(session: Session, caller: Caller, data: DataRoot) -> list[TrashEntry]:
    """What the caller may restore, the newest first."""
    query = select(Discard).order_by(Discard.id.desc()).limit(MOST)
    rows = session.execute(query if caller.is_admin else query.where(_is_ones_own(caller))).scalars()
    return [record(row) for row in rows if _may(session, caller, data, row)]


def record(row: Discard) -> TrashEntry:
    fields = name_fields(unquote_path(row.path))
    return TrashEntry(id=row.id, domain=row.domain, **fields, by=row.actor, at=row.at)


def sweep(session: Session, data: DataRoot, days: int, *, now: float) -> list[Path]:
    """Drop records older than `days`; returns the paths to delete after the commit."""
    old = session.execute(select(Discard).where(Discard.at < now - days * DAY_S)).scalars().all()
    for row in old:
        session.delete(row)
    session.flush()
    return [data.trash / row.place for row in old]


def delete(place: Path) -> None:
    """Delete a file or a directory, without following links."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _find(session: Session, caller: Caller, data: DataRoot, number: int) -> Discard:
    row = session.get(Discard, number)
    if row is None or not _may(session, caller, data, row):
        raise Problem(
            "no_such_trash",
            f"there is no entry {number} in the trash",
            "`pit show trash`",
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
    try:
        place = domains.find(session, caller, data, row.domain)
    except Problem:
        return False
    return place.may_write or caller.is_admin or place.owner == caller.name


def _put_back(source: Path, target: Path, name: str) -> None:
    if target.exists():
        raise Problem("exists", f"{name} has a directory already", status=409)
    source.rename(target)
