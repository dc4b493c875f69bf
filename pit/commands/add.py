"""`pit add`: a new user, group, node, site or alias."""

import shlex

import click

from pit.args.completers import ENTITY, completer
from pit.args.entities import ADDABLE, Entity, parse_entity, parse_properties
from pit.args.options import example, json_option
from pit.args.properties import ask_missing
from pit.connect.connection import Connection
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.jobs import ssh_node
from pit.login.session import open_head
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.times import local_time
from pit_protocol.answers.nodes import NodeAdded
from pit_protocol.answers.sites import SiteAdded
from pit_protocol.problem import Problem


@click.command("add", epilog=example("pit add alias:gtx1070 name='GeForce GTX 1070'"))
@click.argument("entity", metavar="KIND:NAME", shell_complete=completer(ENTITY))
@click.argument("properties", nargs=-1, metavar="[PROPERTY=VALUE]...")
@click.option(
    "--again", is_flag=True, help="Print a new join command for a node or site that was added before."
)
@click.option(
    "--ssh", "target", metavar="USER@HOST", help="Set the node up on this machine, by your own ssh."
)
@json_option
def command(entity: str, properties: tuple[str, ...], again: bool, target: str | None, as_json: bool) -> Exit:
    """Add a user, group, node, site or alias.

    On a terminal it asks for a user's full_name and password and for an alias's name (of the model) if
    they are not given. For a node it prints the command to run on the machine that becomes that node, for
    a site the one that starts its agent on a login node. With --ssh it runs the command itself: it joins,
    starts the worker and waits until the node is online.
    """
    new, given = parse_entity(entity, ADDABLE), parse_properties(properties)
    if again and new.kind not in ("node", "site"):
        raise click.UsageError("--again is for nodes and sites")
    if target is not None and new.kind != "node":
        raise click.UsageError("--ssh is for nodes")
    with open_head() as head:
        wanted = ask_missing(new, given)
        if target is not None:
            return _set_up(head, new, wanted, target, as_json)
        if new.kind == "node":
            _show_join(head.connection, new, _add_node(head, new, wanted, again), as_json)
            return Exit.DONE
        if new.kind == "site":
            _show_agent(head.connection, new, head.add_site(new, wanted, again=again), as_json)
            return Exit.DONE
        record = head.add(new, wanted)
    if as_json:
        output.show_json(record)
    else:
        output.show(f"{sanitize(new)} is added")
    return Exit.DONE


def join_line(connection: Connection, join_code: str, command: str = "join") -> str:
    """The command for the machine that becomes the node, quoted for a shell."""
    words = ["pit-worker", command, connection.url, *connection.address.pins[:1]]
    code = shlex.quote(sanitize(join_code))
    return f"PIT_WORKER_JOIN_CODE={code} {' '.join(map(shlex.quote, words))}"


def _set_up(head: Head, node: Entity, properties: dict[str, str], target: str, as_json: bool) -> Exit:
    """Add the node, or make a new code for one that is there, and set it up on the machine."""
    try:
        added = head.add_node(node, properties)
    except Problem as problem:
        if problem.code != "exists":
            raise
        if properties:
            head.change(node, properties)
        added = head.add_node(node, {}, again=True)
    pin = next(iter(head.connection.address.pins), "")
    ssh_node.set_up(target, added.join_code, head.connection.url, pin, tells_stderr=as_json)
    ssh_node.await_online(head, node.name)
    if as_json:
        output.show_json(head.node(node.name))
    else:
        output.show(f"{sanitize(node)} is online")
    return Exit.DONE


def _show_agent(connection: Connection, site: Entity, added: SiteAdded, as_json: bool) -> None:
    if as_json:
        output.show_json(added)
        return
    output.show(join_line(connection, added.join_code, "site"))
    until = local_time(added.expires_at)
    output.note(
        f"run it on a login node of {site}, as the account that jobs are to run as; the code works once, "
        f"until {until}"
    )


def _add_node(head: Head, entity: Entity, properties: dict[str, str], again: bool) -> NodeAdded:
    try:
        return head.add_node(entity, properties, again=again)
    except Problem as problem:
        if problem.code != "exists":
            raise
        raise Problem(
            problem.code,
            problem.message,
            f"`pit add {entity} --again` prints a new command",
            status=409,
        ) from problem


def _show_join(connection: Connection, node: Entity, added: NodeAdded, as_json: bool) -> None:
    if as_json:
        output.show_json(added)
        return
    output.show(join_line(connection, added.join_code))
    until = local_time(added.expires_at)
    output.note(f"run it on the machine that becomes {node}; the code works once, until {until}")
