"""Domains: where whose data is, and who may read and write it; looked up for every request."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import job_name, parse_job_name
from pit_protocol.problem import Problem
from pit_server.db.models import Membership, User
from pit_server.services.files import unix_ids
from pit_server.services.jobs import jobs
from pit_server.services.users import accounts, groups, permissions
from pit_server.services.users.permissions import Action, Relation
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import PRIVATE_MODE, DataRoot
from pit_server.store.files.domain_files import Domain, Ownership

HOME, SHARED = "home", "shared"
KINDS = "a job's number, job:NUMBER, home, user:NAME, group:NAME or shared"


@dataclass(frozen=True)
class Place:
    """A domain as one caller may use it."""

    name: str  # `user:anna`, also if the request said `home`
    directory: Path
    may_write: bool
    ownership: Ownership | None = None  # of new files; None: the account that the head runs as
    quota_mib: int | None = None
    owner: str = ""  # of a job
    uploads: Path | None = None  # packs that are on their way count, too

    @property
    def is_domain(self) -> bool:
        """Whether it has a budget of its own, as homes and groups do."""
        return self.name.startswith(("user:", "group:"))

    @property
    def counted(self) -> tuple[Path, ...]:
        """What counts for its quota, besides its trash."""
        return (self.directory, self.uploads) if self.uploads else (self.directory,)

    def open(self) -> Domain:
        return Domain(self.directory, self.name, self.ownership)

    def require_write(self) -> None:
        """Raise a Problem unless the caller may write here."""
        if not self.may_write:
            who = "the running job" if self.name.startswith("job:") else "the admin of the head's machine"
            raise Problem(
                "read_only",
                f"{self.name}: only {who} may write here",
                "`pit push home` and `pit push group:NAME` copy to where jobs can read",
                status=403,
            )


def find(session: Session, caller: Caller, data: DataRoot, name: str) -> Place:
    """The domain of that name; a Problem if there is none or the caller may not read it."""
    kind, _, rest = name.partition(":")
    if name == SHARED:
        return Place(name, data.root / SHARED, may_write=False)
    if name == HOME:
        kind, rest = "user", caller.name
    if kind == "user" and rest:
        return _home(session, caller, data, rest)
    if kind == "group" and rest:
        return _group(session, caller, data, rest)
    number = parse_job_name(rest if kind == "job" else name)
    if number is not None:
        job = jobs.find(session, caller, number)
        owner = session.execute(select(User.name).where(User.id == job.user_id)).scalar_one()
        directory = data.attempt(job.id, job.attempt)
        return Place(f"job:{job_name(job.id)}", directory, may_write=False, owner=owner)
    raise Problem("no_such_domain", f"there is no domain {name[:64]!r}", f"use {KINDS}", status=404)


def _home(session: Session, caller: Caller, data: DataRoot, name: str) -> Place:
    user = accounts.find(session, caller, name)
    permissions.require(Action.USE_HOME, accounts.relations(caller, user), f"the home of {user.name}")
    home = data.home(user.name)
    account = unix_ids.find_account(session, user.id)
    if not home.is_dir():  # before the user's first job
        home.mkdir(mode=PRIVATE_MODE, exist_ok=True)
    if account:
        unix_ids.give_once(home, account)
    ownership = Ownership(account.uid, account.gid) if account else None
    return Place(
        f"user:{user.name}",
        home,
        may_write=True,
        ownership=ownership,
        quota_mib=user.quota_mib,
        uploads=data.uploads() / str(user.id),
    )


def _group(session: Session, caller: Caller, data: DataRoot, name: str) -> Place:
    group = groups.find(session, name)
    mine = select(Membership.group_id).where(
        Membership.group_id == group.id, Membership.user_id == caller.user_id
    )
    relations = caller.relations | ({Relation.MEMBER} if session.execute(mine).first() else set())
    permissions.require(Action.USE_GROUP, relations, f"the files of group {name}")
    ownership = None
    if caller.user_id is not None and (account := unix_ids.find_account(session, caller.user_id)):
        gid = unix_ids.gid_of(group.id, group.gid)
        unix_ids.open_group(data.group(name), gid)
        ownership = Ownership(account.uid, gid, file_mode=0o660, directory_mode=unix_ids.GROUP_MODE)
    return Place(
        f"group:{name}", data.group(name), may_write=True, ownership=ownership, quota_mib=group.quota_mib
    )
