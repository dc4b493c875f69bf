"""`pit add-group`: put something into an access group."""

import click

from pit import output
from pit.entities import GROUPED, parse_entity, parse_group
from pit.exits import Exit
from pit.opening import open_head
from pit.options import example, json_option
from pit.safe import safe


@click.command("add-group", epilog=example("pit add-group node:n0:0 students"))
@click.argument("entity", metavar="ENTITY")
@click.argument("group", metavar="GROUP")
@json_option
def command(entity: str, group: str, as_json: bool) -> Exit:
    """Put ENTITY into GROUP: a user, a job, a node, or one resource of a node.

    A user becomes a member, a job is shared with the members, a node or resource is kept for them:
    others cannot use it any more.
    """
    target, name = parse_entity(entity, GROUPED, resources=True), parse_group(group)
    with open_head() as head:
        head.add_group(target.path, name)
    if as_json:
        output.show_json({"entity": str(target), "group": name})
    else:
        output.show(f"{safe(target)} is in group:{safe(name)}")
    return Exit.DONE
