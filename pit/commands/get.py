"""`pit get`: one value, bare, for scripts."""

import click

from pit.args.completers import ENTITY, completer
from pit.args.entities import SETTABLE, parse_entity
from pit.args.options import example, json_option
from pit.args.properties import find_value, value_text
from pit.exit_codes import Exit
from pit.head.latest import find_entity
from pit.login.session import open_head
from pit.ui import output
from pit.ui.sanitize import sanitize


@click.command("get", epilog=example("pit get node:n0 label.rack"))
@click.argument("entity", metavar="KIND:NAME", shell_complete=completer(ENTITY))
@click.argument("name", metavar="PROPERTY")
@json_option
def command(entity: str, name: str, as_json: bool) -> Exit:
    """Print one property of a user, group, node, alias or job."""
    target = parse_entity(entity, SETTABLE)
    with open_head() as head:
        target = find_entity(head, target)
        value = find_value(target, head.record(target), name)
    if as_json:
        output.show_json({name: value})
    else:
        output.show(sanitize(value_text(value)))
    return Exit.DONE
