"""Leftovers: what the data root has of jobs, users and groups that a restored database does not know.

They are moved to a quarantine that no part of the head reads. An admin of the head's machine can look there.
"""

import errno
import logging
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.models import Discard, Group, Job, User
from pit_server.store.data_root import PRIVATE_MODE, DataRoot

log = logging.getLogger(__name__)


def highest_job(data: DataRoot) -> int:
    """The highest number of a job that has files."""
    folders = (data.root / "jobs", data.root / "logs")
    return max((number for folder in folders for number, _ in _numbered(folder)), default=0)


def set_aside(session: Session, data: DataRoot, folder: Path) -> int:
    """Move all leftovers to `folder`, where each keeps its path; returns how many."""
    found = [
        *_of_unknown_jobs(session, data),
        *_of_later_attempts(session, data),
        *_of_unknown_people(session, data),
        *_list_others(data.trash, set(session.execute(select(Discard.place)).scalars())),
    ]
    for path in found:
        target = folder / path.relative_to(data.root)
        for parent in reversed(target.relative_to(data.root).parents):
            (data.root / parent).mkdir(mode=PRIVATE_MODE, exist_ok=True)
        try:
            path.rename(target)
        except OSError as error:
            raise _stuck(path, folder, error) from error
        log.info("%s is set aside in %s", path, target.parent)
    return len(found)


def _of_unknown_jobs(session: Session, data: DataRoot) -> Iterator[Path]:
    jobs = set(session.execute(select(Job.id)).scalars())
    for folder in (data.root / "jobs", data.root / "logs"):
        yield from (path for number, path in _numbered(folder) if number not in jobs)


def _of_later_attempts(session: Session, data: DataRoot) -> Iterator[Path]:
    """Directories and logs of attempts after the backup, of jobs that it has."""
    going_on = select(Job.id, Job.attempt).where(Job.state != JobState.ENDED)
    for job, attempt in session.execute(going_on):
        for folder in (data.job(job), data.logs(job)):
            yield from (path for number, path in _numbered(folder) if number > attempt)


def _of_unknown_people(session: Session, data: DataRoot) -> Iterator[Path]:
    users = {row.id: row.name for row in session.execute(select(User.id, User.name))}
    removed = session.execute(select(Discard.domain).where(Discard.kind == "group")).scalars()
    groups = {
        domain.partition(":")[2] for domain in removed
    }  # their directories go to the trash by themselves
    groups |= set(session.execute(select(Group.name)).scalars())
    yield from _list_others(data.root / "home", users.values())
    yield from _list_others(data.root / "groups", groups)
    for folder in (data.stores(), data.large_files(), data.uploads()):
        yield from (path for number, path in _numbered(folder) if number not in users)


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """What has a number at the beginning of its name, such as `7`, `7.git` and `7-0.1.log`."""
    found = ((path.name.partition(".")[0].partition("-")[0], path) for path in _list(folder))
    return [(int(text), path) for text, path in found if text.isascii() and text.isdecimal()]


def _list_others(folder: Path, known: Collection[str]) -> list[Path]:
    return [path for path in _list(folder) if path.name not in known]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _stuck(path: Path, folder: Path, error: OSError) -> Problem:
    why = "it is on another file system" if error.errno == errno.EXDEV else (error.strerror or "").lower()
    return Problem(
        "not_set_aside",
        f"the restored database does not know whose {path} is, and it cannot be moved to {folder}: {why}",
        "move it out of the data root by hand, and start the head again",
    )
