"""`pit set`: change properties."""

from collections.abc import Mapping, Sequence

import click

from pit.args.completers import ENTITY, completer
from pit.args.entities import SETTABLE, parse_entity, parse_properties
from pit.args.options import example, json_option
from pit.args.properties import ask_old_password, resolve_secrets
from pit.exit_codes import Exit
from pit.head.latest import find_entity
from pit.login.session import open_head
from pit.ui import output
from pit.ui.plural import plural
from pit.ui.sanitize import sanitize
from pit_protocol.answers.users import User

MOST_LISTED = 20
CONSEQUENCES = {
    "held": "held until `pit set user:{user} active=yes`",
    "running": "still running, and may finish; `pit set user:{user} jobs=stop` stops them",
    "stopping": "stopping",
}


@click.command("set", epilog=example("pit set node:n0 state=draining label.rack=r9"))
@click.argument("entity", metavar="KIND:NAME", shell_complete=completer(ENTITY))
@click.argument("properties", nargs=-1, required=True, metavar="PROPERTY=VALUE...")
@json_option
def command(entity: str, properties: tuple[str, ...], as_json: bool) -> Exit:
    """Change properties of a user, group, node, site, alias or job.

    `pit set me password` asks for the current password and the new one (`password=-` reads both from stdin,
    a line each), and logs you out everywhere else. `pit set me git.github.com` asks for a token with which
    the head fetches your private repositories from there (`=@FILE` reads an ssh key or a token from a file,
    `=-` from stdin, `=` removes it). For an unknown property, the error lists the known ones.
    """
    target, given = parse_entity(entity, SETTABLE), parse_properties(properties)
    with open_head() as head:
        target = find_entity(head, target)
        old = {}
        is_user = "password" in given and target.kind == "user"
        if is_user and (target.name == "me" or target.name == head.me().name):
            old = {"old_password": ask_old_password(given["password"])}
        record = head.change(target, {**resolve_secrets(given), **old})
    if as_json:
        output.show_json(record)
    else:
        output.show(f"{sanitize(target)} is changed")
        if isinstance(record, User) and isinstance(record.jobs, dict):
            _tell_of_jobs(record.name, record.jobs)
    return Exit.DONE


def _tell_of_jobs(user: str, jobs: Mapping[str, Sequence[int]]) -> None:
    """Say what becomes of the jobs of a user who is not active."""
    for state, numbers in jobs.items():
        what = CONSEQUENCES.get(state, state).format(user=user)
        listed = ", ".join(map(str, numbers[:MOST_LISTED])) + (" …" if len(numbers) > MOST_LISTED else "")
        output.show(f"{plural(len(numbers), 'job')} {'is' if len(numbers) == 1 else 'are'} {what}: {listed}")
