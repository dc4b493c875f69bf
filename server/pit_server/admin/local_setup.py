"""A cluster of one machine: its first user, its node, and the files with their tokens."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S
from pit_protocol.problem import Problem
from pit_server.app import open_for_command
from pit_server.context import Head
from pit_server.db.models import Node, User
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.services.users.registration import needs_setup
from pit_server.settings import Settings


@dataclass(frozen=True)
class LocalSetup:
    user: str
    node: str
    user_file: Path
    node_file: Path


def set_up(settings: Settings, local: LocalSetup) -> None:
    """Create what is missing; a token file with a valid token stays."""
    head = open_for_command(settings)
    try:
        with head.database.write() as session:
            user_id = find_or_add_user(session, local.user, is_admin=True)
            node_id = _find_or_add_node(session, local.node)
        if not _has_valid_token(head, local.user_file):
            _write_token(head, local.user_file, user_id=user_id)
        if not _has_valid_token(head, local.node_file):
            _write_token(head, local.node_file, node_id=node_id)
    finally:
        head.wakeups.close()
        head.database.dispose()  # its connections must not be shared with a serving process


def find_or_add_user(session: Session, name: str, *, is_admin: bool) -> int:
    """The id of the user of that name; creates the user if there is none."""
    user = session.execute(select(User).where(User.name == name)).scalar_one_or_none()
    if user is None:
        is_first = needs_setup(session)
        user = accounts.add(session, name, now=time.time(), is_admin=is_admin or is_first)
    elif user.removed_at is not None:
        raise accounts.taken(name, was_removed=True)
    elif is_admin:
        user.is_admin = user.is_active = True
    return user.id


def issue_token(head: Head, session: Session, *, label: str, **owner: int) -> str:
    now = time.time()
    days = head.settings.token_days if "user_id" in owner else None
    expires_at = None if days is None else now + days * DAY_S
    return tokens.issue(session, now=now, expires_at=expires_at, label=label, **owner)[1]  # type: ignore[arg-type]


def _find_or_add_node(session: Session, name: str) -> int:
    node = session.execute(
        select(Node).where(Node.name == name, Node.removed_at.is_(None))
    ).scalar_one_or_none()
    return node.id if node else nodes.add(session, name, now=time.time()).id


def _has_valid_token(head: Head, file: Path) -> bool:
    if not file.exists():
        return False
    try:
        with head.database.read() as session:
            tokens.find_caller(session, file.read_text().strip(), now=time.time())
    except Problem:
        return False
    return True


def _write_token(head: Head, file: Path, **owner: int) -> None:
    with head.database.write() as session:
        token = issue_token(head, session, label="setup", **owner)
    partial = file.with_name(file.name + ".part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as target:
        target.write(token + "\n")
    partial.replace(file)
