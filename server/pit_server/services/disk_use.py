"""Who uses how much of the head's disk."""

from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_server.db.models import Group, Job, User
from pit_server.services import access
from pit_server.services.groups import of_user
from pit_server.services.room import Room
from pit_server.services.tokens import Caller
from pit_server.store.paths import DataRoot

MOST_JOBS = 200  # of which is told: the newest that have a directory


def records(session: Session, caller: Caller, data: DataRoot, room: Room) -> list[dict[str, Any]]:
    """What each user, group and job uses: all for admins, one's own for others."""
    everyone = caller.is_admin
    users = select(User.name, User.quota_mib).where(User.removed_at.is_(None)).order_by(User.name)
    people = session.execute(users if everyone else users.where(User.id == caller.user_id)).all()
    groups = select(Group.name, Group.quota_mib).order_by(Group.name)
    mine = groups if everyone else groups.where(Group.id.in_(of_user(caller.user_id)))
    jobs = select(Job.id).where(access.visible(caller)).order_by(Job.id.desc()).limit(MOST_JOBS)
    if not everyone:
        jobs = jobs.where(Job.user_id == caller.user_id)
    wanted = [(f"user:{row.name}", data.home(row.name), row.quota_mib) for row in people]
    wanted += [(f"group:{row.name}", data.group(row.name), row.quota_mib) for row in session.execute(mine)]
    wanted += [(f"job:{number}", data.job(number), None) for number in session.execute(jobs).scalars()]
    return [_row(room, *each) for each in wanted if each[1].is_dir()]


def _row(room: Room, name: str, directory: Path, quota_mib: int | None) -> dict[str, Any]:
    use = room.used(name, directory)
    quota = None if quota_mib is None else quota_mib * 1024 * 1024
    return {"domain": name, "size": use.size, "files": use.files, "quota": quota, "at": use.at}
