"""Maps WebDAV paths to domains: the same ones, with the same permissions, as in the API."""

from collections.abc import Sequence

from sqlalchemy import select

from pit_protocol.problem import Problem
from pit_server.context import Head
from pit_server.db.models import Group, Job, User
from pit_server.services.files import domains
from pit_server.services.files.domains import Place
from pit_server.services.users import access, groups
from pit_server.services.users.tokens import Caller

SHARED, HOME, USERS, GROUPS, JOBS = "shared", "home", "users", "groups", "jobs"
KINDS = {USERS: "user", GROUPS: "group", JOBS: "job"}  # prefix of a domain's name in the API
MOST_JOBS = 1_000  # in a listing; the others can still be opened


def split(parts: Sequence[str]) -> tuple[str, ...] | None:
    """The part of a path that names a domain; None above the domains."""
    if parts and parts[0] in (SHARED, HOME):
        return (parts[0],)
    return tuple(parts[:2]) if len(parts) > 1 else None


def is_virtual_directory(caller: Caller, parts: Sequence[str]) -> bool:
    """Whether the path is a level above the domains."""
    return not parts or (len(parts) == 1 and parts[0] in _virtual_directories(caller))


def names(head: Head, caller: Caller, parts: Sequence[str]) -> list[str]:
    """List a level above the domains."""
    if not parts:
        return [SHARED, HOME, *_virtual_directories(caller)]
    with head.database.read() as session:
        if parts[0] == USERS:
            people = select(User.name).where(User.removed_at.is_(None)).order_by(User.name)
            return list(session.execute(people).scalars())
        if parts[0] == GROUPS:
            query = select(Group.name).order_by(Group.name)
            mine = query.where(Group.id.in_(groups.of_user(caller.user_id)))
            return list(session.execute(query if caller.is_admin else mine).scalars())
        newest = select(Job.id).where(access.visible(caller)).order_by(Job.id.desc()).limit(MOST_JOBS)
        return [str(number) for number in session.execute(newest).scalars()]


def find(head: Head, caller: Caller, key: tuple[str, ...]) -> Place:
    """The domain of a path; a Problem if there is none or the caller may not see it."""
    if key[0] not in (SHARED, HOME, *_virtual_directories(caller)):
        raise Problem("no_such_domain", f"there is no {'/'.join(key)}", status=404)
    name = key[0] if len(key) == 1 else f"{KINDS[key[0]]}:{key[1]}"
    with head.database.read() as session:
        return domains.find(session, caller, head.data, name)


def _virtual_directories(caller: Caller) -> tuple[str, ...]:
    if caller.attempt_id is not None:
        return (GROUPS,)  # a job may use its user's data, but not the directories of other jobs
    return (GROUPS, JOBS, USERS) if caller.is_admin else (GROUPS, JOBS)
