"""`pit set`: change properties."""

import click

from pit.args.entities import SETTABLE, parse_entity, parse_properties
from pit.args.options import example, json_option
from pit.args.properties import ask_old_password, resolve_secrets
from pit.exit_codes import Exit
from pit.head.latest import find_entity
from pit.login.session import open_head
from pit.ui import output
from pit.ui.sanitize import sanitize


@click.command("set", epilog=example("pit set node:n0 state=draining label.rack=r9"))
@click.argument("entity", metavar="KIND:NAME")
@click.argument("properties", nargs=-1, required=True, metavar="PROPERTY=VALUE...")
@json_option
def command(entity: str, properties: tuple[str, ...], as_json: bool) -> Exit:
    """Change properties of a user, group, node, alias or job.

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
    return Exit.DONE
