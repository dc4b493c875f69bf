"""Domains: whose data is where, and who may read and write it; looked up anew for every request."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.db.models import Membership, User
from pit_server.services import accounts, groups, jobs, people, rights
from pit_server.services.rights import Act, Tie
from pit_server.services.tokens import Caller
from pit_server.store.beneath import Domain, Ownership
from pit_server.store.paths import PRIVATE_MODE, DataRoot

HOME, SHARED = "home", "shared"
KINDS = "a job's number, job:NUMBER, home, user:NAME, group:NAME or shared"


@dataclass(frozen=True)
class Place:
    """A domain as one caller may use it."""

    name: str  # `user:anna`, also for who calls it `home`
    directory: Path
    may_write: bool
    ownership: Ownership | None = None  # of what he writes; None: whoever the head runs as
    quota_mib: int | None = None
    owner: str = ""  # of a job

    def open(self) -> Domain:
        return Domain(self.directory, self.name, self.ownership)

    def demand_write(self) -> None:
        """Raise a Problem unless the caller may change something here."""
        if not self.may_write:
            who = "the running job" if self.name.startswith("job:") else "who administers the head's machine"
            raise Problem("read_only", f"{self.name}: only {who} may write here", status=403)


def find(session: Session, caller: Caller, data: DataRoot, name: str) -> Place:
    """The domain of that name; a Problem if there is none, or the caller may not even read it."""
    kind, _, rest = name.partition(":")
    if name == SHARED:
        return Place(name, data.root / SHARED, may_write=False)
    if name == HOME:
        kind, rest = "user", caller.name
    if kind == "user" and rest:
        return _home(session, caller, data, rest)
    if kind == "group" and rest:
        return _group(session, caller, data, rest)
    number = rest if kind == "job" else name
    if number.isascii() and number.isdecimal() and len(number) < 12:
        job = jobs.find(session, caller, int(number))
        owner = session.execute(select(User.name).where(User.id == job.user_id)).scalar_one()
        directory = data.attempt(job.id, job.attempt)
        return Place(f"job:{job.id}", directory, may_write=False, owner=owner)
    raise Problem("no_such_domain", f"there is no domain {name[:64]!r}", f"there are {KINDS}", status=404)


def _home(session: Session, caller: Caller, data: DataRoot, name: str) -> Place:
    user = people.find(session, caller, name)
    rights.demand(Act.USE_HOME, people.ties(caller, user), f"the home of {user.name}")
    home = data.home(user.name)
    account = accounts.find_account(session, user.id)
    if not home.is_dir():  # before his first job
        home.mkdir(mode=PRIVATE_MODE, exist_ok=True)
    if account:
        accounts.give_home(home, account)
    whose = Ownership(account.uid, account.gid) if account else None
    return Place(f"user:{user.name}", home, may_write=True, ownership=whose, quota_mib=user.quota_mib)


def _group(session: Session, caller: Caller, data: DataRoot, name: str) -> Place:
    group = groups.find(session, name)
    mine = select(Membership.group_id).where(
        Membership.group_id == group.id, Membership.user_id == caller.user_id
    )
    ties = caller.ties | ({Tie.MEMBER} if session.execute(mine).first() else set())
    rights.demand(Act.USE_GROUP, ties, f"the files of group {name}")
    whose = None
    if caller.user_id is not None and (account := accounts.find_account(session, caller.user_id)):
        gid = accounts.gid_of(group.id, group.gid)
        accounts.open_group(data.group(name), gid)
        whose = Ownership(account.uid, gid, file_mode=0o660, directory_mode=accounts.GROUP_MODE)
    return Place(
        f"group:{name}", data.group(name), may_write=True, ownership=whose, quota_mib=group.quota_mib
    )
