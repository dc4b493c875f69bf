"""`pit get`: one value, bare, for scripts."""

import click

from pit import output
from pit.entities import SETTABLE, parse_entity
from pit.exits import Exit
from pit.opening import open_head
from pit.options import example, json_option
from pit.properties import find_value, value_text
from pit.safe import safe


@click.command("get", epilog=example("pit get node:n0 label.rack"))
@click.argument("entity", metavar="KIND:NAME")
@click.argument("name", metavar="PROPERTY")
@json_option
def command(entity: str, name: str, as_json: bool) -> Exit:
    """Print one property of a user, group, node, alias or job."""
    target = parse_entity(entity, SETTABLE)
    with open_head() as head:
        value = find_value(target, head.record(target.path), name)
    if as_json:
        output.show_json({name: value})
    else:
        output.show(safe(value_text(value)))
    return Exit.DONE
