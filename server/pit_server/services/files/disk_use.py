"""Disk usage per user, group and job."""

from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.answers.files import DomainUsage
from pit_server.db.models import Group, Job, User
from pit_server.services.files.quota import Quotas
from pit_server.services.users import access
from pit_server.services.users.groups import of_user
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import DataRoot

MOST_JOBS = 200  # the newest that have a directory


def records(session: Session, caller: Caller, data: DataRoot, quotas: Quotas) -> list[DomainUsage]:
    """What each user, group and job uses; users who are not admins see only their own."""
    everyone = caller.is_admin
    users = select(User.id, User.name, User.quota_mib).where(User.removed_at.is_(None)).order_by(User.name)
    people = session.execute(users if everyone else users.where(User.id == caller.user_id)).all()
    groups = select(Group.name, Group.quota_mib).order_by(Group.name)
    mine = groups if everyone else groups.where(Group.id.in_(of_user(caller.user_id)))
    jobs = select(Job.id).where(access.visible(caller)).order_by(Job.id.desc()).limit(MOST_JOBS)
    if not everyone:
        jobs = jobs.where(Job.user_id == caller.user_id)
    wanted: list[tuple[str, tuple[Path, ...], int | None]] = [
        (f"user:{row.name}", (data.home(row.name), data.uploads() / str(row.id)), row.quota_mib)
        for row in people
    ]
    wanted += [(f"group:{row.name}", (data.group(row.name),), row.quota_mib) for row in session.execute(mine)]
    wanted += [(f"job:{number}", (data.job(number),), None) for number in session.execute(jobs).scalars()]
    return [_row(quotas, *each) for each in wanted if each[1][0].is_dir()]


def _row(quotas: Quotas, name: str, directories: tuple[Path, ...], quota_mib: int | None) -> DomainUsage:
    use = quotas.used(name, directories)
    quota = None if quota_mib is None else quota_mib * 1024 * 1024
    return DomainUsage(name, use.size, use.files, quota, use.at)
