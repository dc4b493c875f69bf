"""The commands of `pit-head`."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol import __version__
from pit_protocol.durations import DAY_S
from pit_protocol.problem import Problem
from pit_server import install as service
from pit_server import tls
from pit_server.app import create_head
from pit_server.context import Head
from pit_server.db.models import Node, User
from pit_server.services import audit
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.services.users.registration import needs_setup
from pit_server.settings import Settings, for_one_user, load

home_option = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory of the head's database, data and settings.",
)


class _Problems(click.Group):
    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except Problem as problem:
            click.echo(f"pit-head: {problem.message}", err=True)
            if problem.hint:
                click.echo(problem.hint, err=True)
            sys.exit(1)


@click.group(cls=_Problems)
@click.version_option(__version__, message="pit-head %(version)s")
def cli() -> None:
    """Run and set up the head of a pit cluster."""


@cli.command()
@home_option
@click.option("--bind", help="Address and port to listen on, such as 127.0.0.1:7478.")
@click.option("--embedded", is_flag=True, help="Serve one user: registration is closed unless set otherwise.")
def serve(home: Path, bind: str | None, embedded: bool) -> None:
    """Serve clients and workers until stopped.

    Example: pit-head serve --home /srv/pit --bind 127.0.0.1:7478
    """
    from pit_server.gunicorn_server import serve as serve_head  # gunicorn: not needed by the other commands

    settings = _settings(home)
    if bind:
        settings = replace(settings, bind=bind)
    serve_head(for_one_user(settings) if embedded else settings)


@cli.command()
@home_option
@click.option("--user", required=True, help="Name of the local user, who becomes admin.")
@click.option("--node", required=True, help="Name of this machine as a node.")
@click.option(
    "--user-file", type=click.Path(path_type=Path), required=True, help="Where the user's token goes."
)
@click.option(
    "--node-file", type=click.Path(path_type=Path), required=True, help="Where the worker's token goes."
)
def setup(home: Path, user: str, node: str, user_file: Path, node_file: Path) -> None:
    """Create the database, a first user and a node, for a cluster of one machine.

    Running it again is safe: a token file with a valid token stays.

    Example: pit-head setup --home pit --user anna --node n0 --user-file user.token --node-file node.token
    """
    head = create_head(_settings(home))
    with head.database.write() as session:
        user_id = _user(session, user, is_admin=True)
        node_id = _node(session, node)
    if not _has_valid_token(head, user_file):
        _write_token(head, user_file, user_id=user_id)
    if not _has_valid_token(head, node_file):
        _write_token(head, node_file, node_id=node_id)


@cli.command("add-user")
@home_option
@click.argument("name")
@click.option("--admin", is_flag=True, help="Make the user an admin.")
def add_user(home: Path, name: str, admin: bool) -> None:
    """Add user NAME, or make a new token for an existing one, and print the token.

    This is how an admin gets in again after losing the password; others register with `pit connect URL`.

    Example: pit-head add-user --home /srv/pit anna | pit login --with-token
    """
    head = create_head(_settings(home))
    with head.database.write() as session:
        user_id = _user(session, name, is_admin=admin)
        token = _issue(head, session, user_id=user_id, label="add-user")
        audit.note(session, "console", "add-user", f"user:{name}", now=time.time())
    click.echo(token)


@cli.command()
@home_option
def connect(home: Path) -> None:
    """Print the .pitconnect.txt to hand out: the head's address and its certificate.

    Example: pit-head connect --home /srv/pit > .pitconnect.txt
    """
    click.echo(tls.connect_text(_settings(home)), nl=False)


@cli.command()
@home_option
@click.option("--print", "only_print", is_flag=True, help="Print the unit and change nothing.")
def install(home: Path, only_print: bool) -> None:
    """Make the head a systemd service that starts with the machine; it runs as the owner of its home.

    Example: pit-head install --home /srv/pit
    """
    settings = _settings(home)
    if only_print:
        click.echo(service.render_unit(settings.home), nl=False)
        return
    file = service.install(settings.home)
    click.echo(f"{file} is installed, and the head has been started as {service.owner(settings.home)}")
    click.echo("`journalctl -u pit-head` shows its log, with its URL and the setup code for the first user")


def _user(session: Session, name: str, *, is_admin: bool) -> int:
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


def _node(session: Session, name: str) -> int:
    node = session.execute(
        select(Node).where(Node.name == name, Node.removed_at.is_(None))
    ).scalar_one_or_none()
    return node.id if node else nodes.add(session, name, now=time.time()).id


def _settings(home: Path) -> Settings:
    return load(home.absolute())


def _has_valid_token(head: Head, file: Path) -> bool:
    if not file.exists():
        return False
    try:
        with head.database.read() as session:
            tokens.find_caller(session, file.read_text().strip(), now=time.time())
    except Problem:
        return False
    return True


def _issue(head: Head, session: Session, *, label: str, **owner: int) -> str:
    now = time.time()
    days = head.settings.token_days if "user_id" in owner else None
    expires_at = None if days is None else now + days * DAY_S
    return tokens.issue(session, now=now, expires_at=expires_at, label=label, **owner)[1]  # type: ignore[arg-type]


def _write_token(head: Head, file: Path, **owner: int) -> None:
    with head.database.write() as session:
        token = _issue(head, session, label="setup", **owner)
    partial = file.with_name(file.name + ".part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as target:
        target.write(token + "\n")
    partial.replace(file)
