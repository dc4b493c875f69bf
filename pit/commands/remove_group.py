"""`pit remove-group`: take something out of an access group."""

import click

from pit.args.completers import ENTITY, GROUP, completer
from pit.args.entities import GROUPED, parse_entity, parse_group
from pit.args.options import example, json_option
from pit.exit_codes import Exit
from pit.head.latest import find_entity
from pit.login.session import open_head
from pit.ui import output
from pit.ui.documents import GroupChange
from pit.ui.sanitize import sanitize


@click.command("remove-group", epilog=example("pit remove-group user:anna students"))
@click.argument("entity", metavar="ENTITY", shell_complete=completer(ENTITY))
@click.argument("group", metavar="GROUP", shell_complete=completer(GROUP))
@json_option
def command(entity: str, group: str, as_json: bool) -> Exit:
    """Take ENTITY out of GROUP: a user, a job, a node, or one resource of a node."""
    target, name = parse_entity(entity, GROUPED, resources=True), parse_group(group)
    with open_head() as head:
        target = find_entity(head, target)
        head.remove_group(target.path, name)
    if as_json:
        output.show_json(GroupChange(str(target), name))
    else:
        output.show(f"{sanitize(target)} is not in group:{sanitize(name)}")
    return Exit.DONE
