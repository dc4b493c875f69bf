"""A head begins: the next generation of its database, and a comparison with its data root.

A database that is older than its data root was restored from a backup. What was handed out since then must
not be handed out again, and what was written since then must not be shown to somebody else: numbers go on
after the highest ever used, and leftovers are set aside. All of it can be repeated after a crash, because
the data root gets the new incarnation last.
"""

import json
import logging
import secrets
import time
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from pit_server.db import generation, sequences
from pit_server.db.database import Database
from pit_server.db.models import Fact
from pit_server.services import audit
from pit_server.services.incarnation import leftovers, restored_jobs
from pit_server.store.data_root import DataRoot
from pit_server.store.marks import Marks, Record, read_boot_id

INCARNATION, RESTORED = "incarnation", "restored"  # facts
NOTICE_S = 7 * 24 * 3600.0  # how long `pit status` shows a restore to admins

log = logging.getLogger(__name__)


def begin(database: Database, data: DataRoot) -> int:
    """Begin as the only head of this database; returns its generation. Needs the head's lock."""
    marks = Marks(data.root)
    record, boot_id = marks.read(), read_boot_id()
    with database.exclusive() as connection:
        number = generation.begin(connection)
        last = sequences.list_last(connection)
        known = _incarnation(connection)
        evidence = _why_older(data, record, marks.used(), known, number - 1, last)
        if record and (evidence or record.boot_id != boot_id):
            # After a power failure too, because then the used numbers may not be on disk.
            last |= sequences.raise_to(connection, record.reserved)
        incarnation = known if known and not evidence else secrets.token_hex(6)
        _store_incarnation(connection, incarnation)
    if evidence:
        _reconcile(database, data, evidence, incarnation)
    marks.restart(last)
    reserved = sequences.only_naming(last) | _higher(record.reserved if record else {}, last)
    marks.write(Record(incarnation, number, boot_id, reserved))
    return number


def list_notices(session: Session, now: float) -> list[str]:
    """What admins should know of a recent restore."""
    fact = session.get(Fact, RESTORED)
    known = json.loads(fact.value) if fact else {}
    return [known["text"]] if known and now - known["at"] < NOTICE_S else []


def _why_older(
    data: DataRoot,
    record: Record | None,
    used: sequences.Numbers,
    incarnation: str,
    before: int,
    last: sequences.Numbers,
) -> str:
    """What shows that the database is older than the data root; empty if nothing does."""
    if record is None:
        return ""
    if record.incarnation and record.incarnation != incarnation:
        return (
            f"the data root is of incarnation {record.incarnation}, the database of {incarnation or 'none'}"
        )
    if record.generation > before:
        return f"head {record.generation} has used the data root, the database knows {before}"
    if (highest := leftovers.highest_job(data)) > last["job"]:
        return f"the data root has job {highest}, the database knows {last['job']}"
    for name, number in _higher(used, last).items():
        return f"number {number} of {name} has been used, the database knows {last.get(name, 0)}"
    return ""


def _higher(numbers: sequences.Numbers, than: sequences.Numbers) -> sequences.Numbers:
    return {name: number for name, number in numbers.items() if number > than.get(name, 0)}


def _incarnation(connection: Connection) -> str:
    with Session(connection) as session:
        fact = session.get(Fact, INCARNATION)
        return fact.value if fact else ""


def _store_incarnation(connection: Connection, incarnation: str) -> None:
    with Session(connection) as session:
        session.merge(Fact(name=INCARNATION, value=incarnation))
        session.flush()


def _reconcile(database: Database, data: DataRoot, evidence: str, incarnation: str) -> None:
    log.warning("the database is older than the data root: %s", evidence)
    now = time.time()
    folder = data.quarantine / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{incarnation}"
    with database.write() as session:
        ended = restored_jobs.settle(session, data, now=now)
    with database.read() as session:
        moved = leftovers.set_aside(session, data, folder)
    text = _describe(ended, moved, folder)
    log.warning("%s", text)
    with database.write() as session:
        session.merge(Fact(name=RESTORED, value=json.dumps({"at": now, "text": text})))
        audit.note(session, "head", "restored", f"incarnation:{incarnation}", now=now, detail=text)


def _describe(ended: list[int], moved: int, folder: Path) -> str:
    parts = ["the head's database was restored from a backup; new numbers follow the highest ever used"]
    if moved:
        parts.append(f"{moved} files and directories that it does not know are in {folder}")
    if ended:
        shown = ", ".join(map(str, ended[:10])) + (", …" if len(ended) > 10 else "")
        parts.append(f"jobs that waited at the time of the backup and have run since are lost: {shown}")
    return "; ".join(parts)
