"""Whose files are whose on disk: numbers of users and groups, and directories that belong to them."""

import os
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.beat import Account, Runtime
from pit_protocol.problem import Problem
from pit_server.db.models import Group, Membership, Node, User
from pit_server.services.properties import read_count

FIRST_UID = 200_000  # a user who was given no number has this one and his id
FIRST_GID = 300_000
LAST = 399_999
LOWEST = 1_000  # below are the machine's own
GROUP_MODE = 0o2770  # what a member makes there is the group's, too


def read_number(name: str, text: str) -> int | None:
    """A uid or gid that an admin gives; empty: the one that goes with the id."""
    number = read_count(name, text)
    if number is not None and (number < LOWEST or FIRST_UID <= number <= LAST):
        raise Problem(
            f"bad_{name}",
            f"{name} must be from {LOWEST} on, and not from {FIRST_UID} to {LAST}",
            "the latter are given to those who have none",
            status=422,
        )
    return number


def uid_of(user_id: int, given: int | None) -> int:
    return given if given is not None else FIRST_UID + user_id


def gid_of(group_id: int, given: int | None) -> int:
    return given if given is not None else FIRST_GID + group_id


def are_used(session: Session) -> bool:
    """Whether files are given to users: the head must be root, and some node run containers."""
    if os.geteuid() != 0:
        return False
    query = select(Node.id).where(Node.runtime == Runtime.DOCKER, Node.removed_at.is_(None)).limit(1)
    return session.execute(query).first() is not None


def find_account(session: Session, user_id: int) -> Account | None:
    """The user's numbers; None where files are not given to users."""
    if not are_used(session):
        return None
    uid = uid_of(user_id, session.execute(select(User.uid).where(User.id == user_id)).scalar_one())
    groups = session.execute(
        select(Group.id, Group.gid)
        .join(Membership, Membership.group_id == Group.id)
        .where(Membership.user_id == user_id)
        .order_by(Group.id)
    )
    return Account(uid, uid, tuple(gid_of(row.id, row.gid) for row in groups))


def give(directory: Path, account: Account) -> None:
    """Give a directory and all in it to the user; links themselves, never what they lead to."""
    os.lchown(directory, account.uid, account.gid)
    for folder, folders, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
        del folder


def open_group(directory: Path, gid: int) -> None:
    """Let the group's members into its directory."""
    os.chown(directory, -1, gid)
    directory.chmod(GROUP_MODE)


def open_groups(session: Session, places: Iterable[tuple[str, Path]]) -> None:
    """See to it that directories of groups, by name, are their members'."""
    numbers = {
        row.name: gid_of(row.id, row.gid) for row in session.execute(select(Group.id, Group.name, Group.gid))
    }
    for name, directory in places:
        if directory.is_dir() and directory.stat().st_gid != numbers[name]:
            open_group(directory, numbers[name])
