"""`pit add`: a new user, group, node or alias."""

import shlex

import click

from pit import output
from pit.connection import Connection
from pit.entities import ADDABLE, Entity, parse_entity, parse_properties
from pit.exits import Exit
from pit.head import Head, Json
from pit.opening import open_head
from pit.options import example, json_option
from pit.properties import complete
from pit.safe import safe
from pit.times import local_time
from pit_protocol.problem import Problem


@click.command("add", epilog=example("pit add alias:gtx1070 name='GeForce GTX 1070'"))
@click.argument("entity", metavar="KIND:NAME")
@click.argument("properties", nargs=-1, metavar="[PROPERTY=VALUE]...")
@click.option("--again", is_flag=True, help="A new line to paste, for a node that is known already.")
@json_option
def command(entity: str, properties: tuple[str, ...], again: bool, as_json: bool) -> Exit:
    """Add a user, group, node or alias.

    On a terminal, a user's full_name and password and an alias's name (of the model) are asked for if
    they are not given. For a node it prints the line to paste on the machine that is to be that node.
    """
    target, given = parse_entity(entity, ADDABLE), parse_properties(properties)
    if again and target.kind != "node":
        raise click.UsageError("--again is for nodes")
    with open_head() as head:
        answer = _add(head, target, complete(target, given), again)
        if as_json:
            output.show_json(answer)
        elif target.kind == "node":
            output.show(join_line(head.connection, answer))
            output.tell(f"paste it on the machine that is to be {target}; {_until(answer)}")
        else:
            output.show(f"{safe(target)} is added")
    return Exit.DONE


def join_line(connection: Connection, answer: Json) -> str:
    """What to type on the machine that is to be the node; quoted, for a shell will read it."""
    words = ["pit-worker", "join", connection.url, *connection.address.pins[:1]]
    code = shlex.quote(safe(answer["join_code"]))
    return f"PIT_WORKER_JOIN_CODE={code} {' '.join(map(shlex.quote, words))}"


def _add(head: Head, entity: Entity, properties: dict[str, str], again: bool) -> Json:
    try:
        return head.add(entity.path, properties, again=again)
    except Problem as problem:
        if problem.code != "exists" or entity.kind != "node":
            raise
        raise Problem(
            problem.code, problem.message, f"`pit add {entity} --again` prints a new line for it", status=409
        ) from problem


def _until(answer: Json) -> str:
    return f"the code is good once, until {local_time(answer['expires_at'])}"
