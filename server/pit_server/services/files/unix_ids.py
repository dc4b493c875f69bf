"""Unix ids of users and groups, and the ownership of their directories."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.messages.beat import Account
from pit_protocol.problem import Problem
from pit_server.db.database import AnyRow
from pit_server.db.memo import remembered
from pit_server.db.models import Group, Membership, Node, User
from pit_server.services.properties import read_count
from pit_server.store.data_root import PRIVATE_MODE
from pit_server.store.files.tree_walk import walk

FIRST_UID = 200_000  # plus the user's id: the uid of a user who was not given one
FIRST_GID = 300_000
LAST = 399_999
LOWEST = 1_000  # lower ones are system accounts
GROUP_MODE = 0o2770  # setgid: files that members create belong to the group


def read_number(name: str, text: str) -> int | None:
    """Parse a uid or gid set by an admin; empty: derived from the id."""
    number = read_count(name, text)
    if number is not None and (number < LOWEST or FIRST_UID <= number <= LAST):
        raise Problem(
            f"bad_{name}",
            f"{name} must be from {LOWEST} on, and not from {FIRST_UID} to {LAST}",
            "those are assigned automatically",
            status=422,
        )
    return number


def check_free(session: Session, number: int | None, *, user_id: int = 0, group_id: int = 0) -> None:
    """Raise a Problem if another user or group has the number, because both could read each other's files."""
    if number is None:
        return
    user = session.execute(select(User.name).where(User.uid == number, User.id != user_id)).scalar()
    group = session.execute(select(Group.name).where(Group.gid == number, Group.id != group_id)).scalar()
    if user or group:
        whose = f"user {user}" if user else f"group {group}"
        raise Problem("exists", f"{number} is the number of {whose}", "choose another", status=409)


def uid_of(user_id: int, given: int | None) -> int:
    return given if given is not None else FIRST_UID + user_id


def gid_of(group_id: int, given: int | None) -> int:
    return given if given is not None else FIRST_GID + group_id


def separates(node: Node | AnyRow) -> bool:
    """Whether processes on the node run as their users: head and worker must be root."""
    return bool(node.separates_users) and os.geteuid() == 0


class _Ids(NamedTuple):
    """The ids of all users and groups."""

    are_used: bool  # files are owned by users: some node runs processes as their users
    uids: dict[int, int]  # by user
    gids: dict[int, dict[str, int]]  # of a user's groups, by name


def _read_ids(session: Session) -> _Ids:
    separates = select(Node.id).where(Node.separates_users, Node.removed_at.is_(None)).limit(1)
    uids = {row.id: uid_of(row.id, row.uid) for row in session.execute(select(User.id, User.uid))}
    gids: dict[int, dict[str, int]] = {}
    for row in session.execute(
        select(Membership.user_id, Group.id, Group.name, Group.gid)
        .join(Group, Membership.group_id == Group.id)
        .order_by(Group.id)
    ):
        gids.setdefault(row.user_id, {})[row.name] = gid_of(row.id, row.gid)
    return _Ids(session.execute(separates).first() is not None, uids, gids)


def _ids(session: Session) -> _Ids:
    return remembered(session, "unix ids", (Node, User, Group, Membership), _read_ids)


def find_account(session: Session, user_id: int) -> Account | None:
    """The user's ids; None where files are not owned by users."""
    if os.geteuid() != 0 or not _ids(session).are_used:
        return None
    uid = _ids(session).uids[user_id]
    return Account(uid, uid, tuple(gids_of_user(session, user_id).values()))


def give(directory: Path, account: Account) -> None:
    """Make the user own a directory and everything in it, without following links."""
    _chown_all(directory, account.uid, account.gid)
    os.lchown(directory, account.uid, account.gid)


def give_once(directory: Path, account: Account) -> None:
    """Make the user own a directory that should be theirs alone; changes all of it if the uid has changed."""
    if directory.is_dir() and directory.stat().st_uid != account.uid:
        directory.chmod(PRIVATE_MODE)
        give(directory, account)


def _chown_all(directory: Path, uid: int, gid: int) -> None:
    for visit in walk(directory, strict=True):
        for name, _ in visit.entries:
            with suppress(FileNotFoundError):
                os.chown(name, uid, gid, dir_fd=visit.directory, follow_symlinks=False)


def open_group(directory: Path, gid: int) -> None:
    """Give the group access to its directory, also to files with an older gid."""
    if not directory.is_dir() or directory.stat().st_gid == gid:
        return
    _chown_all(directory, -1, gid)
    os.chown(directory, -1, gid)  # last, as it marks that everything below is done
    directory.chmod(GROUP_MODE)


def gids_of_user(session: Session, user_id: int) -> dict[str, int]:
    """The gids of a user's groups, by name."""
    return dict(_ids(session).gids.get(user_id, {}))
