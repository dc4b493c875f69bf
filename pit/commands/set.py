"""`pit set`: change what is known of something."""

import click

from pit import output
from pit.entities import SETTABLE, parse_entity, parse_properties
from pit.exits import Exit
from pit.opening import open_head
from pit.options import example, json_option
from pit.properties import with_secrets
from pit.safe import safe


@click.command("set", epilog=example("pit set node:n0 state=draining label.rack=r9"))
@click.argument("entity", metavar="KIND:NAME")
@click.argument("properties", nargs=-1, required=True, metavar="PROPERTY=VALUE...")
@json_option
def command(entity: str, properties: tuple[str, ...], as_json: bool) -> Exit:
    """Change properties of a user, group, node, alias or job.

    `pit set me password` asks for the new password, `pit set me git.github.com` for a token by which the
    head may fetch your private repositories from there (`=@FILE` reads an ssh key or a token from a file,
    `=-` from stdin, `=` takes it away). The head says which properties there are if one is unknown.
    """
    target, given = parse_entity(entity, SETTABLE), parse_properties(properties)
    with open_head() as head:
        record = head.change(target.path, with_secrets(given))
    if as_json:
        output.show_json(record)
    else:
        output.show(f"{safe(target)} is changed")
    return Exit.DONE
