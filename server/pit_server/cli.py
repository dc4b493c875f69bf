"""The commands of `pit-head`."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import click

from pit_protocol import __version__
from pit_protocol.problem import Problem
from pit_protocol.system.retention_clock import RetentionClock
from pit_server import tls
from pit_server.admin import install as service
from pit_server.admin import local_setup
from pit_server.admin.local_setup import LocalSetup
from pit_server.app import open_for_command
from pit_server.services import audit
from pit_server.settings import Settings, for_one_user, load
from pit_server.store.data_root import DataRoot

EXIT_TRY_AGAIN = 75  # EX_TEMPFAIL: the unit starts the head again after this, but not after 1
Command = Callable[..., None]

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
            sys.exit(EXIT_TRY_AGAIN if problem.status == 503 else 1)


@click.group(cls=_Problems)
@click.version_option(__version__, message="pit-head %(version)s")
def cli() -> None:
    """Run and set up the head of a pit cluster."""


def _local_options(required: bool) -> Callable[[Command], Command]:
    """The options that describe a cluster of one machine."""
    file = click.Path(path_type=Path)
    options = (
        click.option("--user", required=required, help="Name of the local user, who becomes admin."),
        click.option("--node", required=required, help="Name of this machine as a node."),
        click.option("--user-file", type=file, required=required, help="Where the user's token goes."),
        click.option("--node-file", type=file, required=required, help="Where the worker's token goes."),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@cli.command()
@home_option
@click.option("--bind", help="Address and port to listen on, such as 127.0.0.1:7478.")
@click.option(
    "--embedded",
    is_flag=True,
    help="Serve one user: set up as `setup` does, and close registration unless set otherwise.",
)
@_local_options(required=False)
def serve(home: Path, bind: str | None, embedded: bool, **local: Any) -> None:
    """Serve clients and workers until stopped.

    Example: pit-head serve --home /srv/pit --bind 127.0.0.1:7478
    """
    from pit_server.gunicorn_server import serve as serve_head  # gunicorn: not needed by the other commands

    settings = _settings(home)
    if bind:
        settings = replace(settings, bind=bind)
    if not embedded:
        serve_head(settings)
        return
    if missing := [name for name, value in local.items() if not value]:
        raise click.UsageError(f"--embedded needs --{missing[0].replace('_', '-')}")
    local_setup.set_up(settings, LocalSetup(**local))
    serve_head(for_one_user(settings))


@cli.command()
@home_option
@_local_options(required=True)
def setup(home: Path, **local: Any) -> None:
    """Create the database, a first user and a node, for a cluster of one machine.

    Running it again is safe: a token file with a valid token stays.

    Example: pit-head setup --home pit --user anna --node n0 --user-file user.token --node-file node.token
    """
    local_setup.set_up(_settings(home), LocalSetup(**local))


@cli.command("add-user")
@home_option
@click.argument("name")
@click.option("--admin", is_flag=True, help="Make the user an admin.")
def add_user(home: Path, name: str, admin: bool) -> None:
    """Add user NAME, or make a new token for an existing one, and print the token.

    This is how an admin gets in again after losing the password; others register with `pit connect URL`.

    Example: pit-head add-user --home /srv/pit anna | pit login --with-token
    """
    head = open_for_command(_settings(home))
    with head.database.write() as session:
        user_id = local_setup.find_or_add_user(session, name, is_admin=admin)
        token = local_setup.issue_token(head, session, user_id=user_id, label="add-user")
        audit.note(session, "console", "add-user", f"user:{name}", now=time.time())
    click.echo(token)


@cli.command()
@home_option
def connect(home: Path) -> None:
    """Print the .pitconnect.txt to hand out: the head's address and its certificate.

    Example: pit-head connect --home /srv/pit > .pitconnect.txt
    """
    click.echo(tls.connect_text(_settings(home)), nl=False)


@cli.command("accept-clock")
@home_option
def accept_clock(home: Path) -> None:
    """Accept the clock of this machine after a jump, so that old data is deleted again.

    Example: pit-head accept-clock --home /srv/pit
    """
    clock = RetentionClock(DataRoot(_settings(home).root).clock)
    why = clock.describe()
    clock.accept()
    click.echo(f"accepted; before that, {why}" if why else "the clock is fine, nothing waited for it")


@cli.command()
@home_option
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(home: Path, file: Path) -> None:
    """Write a backup of the head to FILE: database, settings, certificate and keys, but not the data root.

    The head may keep running. Anyone who can read FILE can act as this head, so it has mode 0600.

    Example: pit-head backup --home /srv/pit /backup/pit.tar
    """
    from pit_server.admin.backup.backup import make

    make(_settings(home), file.absolute())
    click.echo(f"{file} has the database, settings and keys of {home}; copy the data root after it")


@cli.command()
@home_option
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace what is there.")
def restore(home: Path, file: Path, force: bool) -> None:
    """Restore the head from FILE, a backup. No head may be running there.

    Example: pit-head restore --home /srv/pit /backup/pit.tar
    """
    from pit_server.admin.backup.restore import restore as restore_backup

    manifest, settings = restore_backup(home.absolute(), file.absolute(), force=force)
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.made_at))
    click.echo(f"{home} is as it was at {made}")
    click.echo(f"the next start of the head compares it with the data root {settings.root}")


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


@cli.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "policies",
    type=click.Choice(["pit", "easy", "fifo"]),
    multiple=True,
    default=("pit",),
    help="Who decides: pit, EASY backfill, or first come, first served. Repeat it to compare.",
)
@click.option(
    "--load",
    type=click.FloatRange(0.01, 100),
    help="Scale arrivals so that the jobs need this share of the nodes.",
)
@click.option("--every", type=click.IntRange(1), default=1, help="Keep every Nth node.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Skip the first N jobs.")
@click.option("--jobs", "most_jobs", type=click.IntRange(2), help="Stop after N jobs.")
@click.option(
    "--longest", "longest_s", type=click.FloatRange(1), default=inf, help="Cut run times to N seconds."
)
@click.option("--seed", type=int, default=1, help="Seed for assigning users to jobs without one.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Try a setting of the head.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def simulate(trace: Path, **options: Any) -> None:
    """Run the scheduler on TRACE in virtual time, and print utilisation, waits and fairness.

    Formats: .swf, a .csv table of tasks beside one of nodes, and JSON lines (docs/scheduling.md).

    Example: pit-head simulate jobs.swf --load 1.0 --policy pit --policy easy --set reservations=10
    """
    from pit_server.simulator import command

    click.echo(command.run(trace, **options))


def _settings(home: Path) -> Settings:
    return load(home.absolute())
