"""`pit remove`: take something away."""

import click

from pit import output, terminal
from pit.draining import drain
from pit.entities import FOLDERS, Entity, parse_entity
from pit.exits import Exit
from pit.head import ONES_OWN, Head
from pit.opening import open_head
from pit.options import example, json_option, yes_option
from pit.safe import safe
from pit_protocol.problem import Problem

TRASHED = ("user", "group", "job")  # kinds that have data


@click.command("remove", epilog=example("pit remove node:n0 --drain"))
@click.argument("entities", nargs=-1, required=True, metavar="KIND:NAME...")
@click.option(
    "--drain", "drains", is_flag=True, help="Let a node's processes end first, and start no others."
)
@yes_option
@json_option
def command(entities: tuple[str, ...], drains: bool, yes: bool, as_json: bool) -> Exit:
    """Remove users, groups, nodes, aliases, ended jobs, or tokens.

    What is in use is not removed, and the head says by whom it is used. Data of users, groups and jobs
    goes to the head's trash; on a terminal you are asked first. The exit code is 1 if one of them could
    not be removed; the others are removed all the same.
    """
    targets = [parse_entity(text, tuple(FOLDERS)) for text in dict.fromkeys(entities)]
    if drains and any(target.kind != "node" for target in targets):
        raise click.UsageError("--drain is for nodes")
    code = Exit.DONE
    with open_head() as head:
        if not yes and terminal.is_interactive():
            _ask(targets)
        for target in targets:
            try:
                _remove(head, target, drains, as_json)
            except Problem as problem:
                if problem.status not in ONES_OWN:
                    raise
                output.tell(problem.message, problem.hint)
                code = Exit.PROBLEM
            except KeyboardInterrupt:
                if not drains:
                    raise
                return _say_drains_on(target)
    return code


def _remove(head: Head, target: Entity, drains: bool, as_json: bool) -> None:
    if drains:
        drain(head, target)
    else:
        head.remove(target.path)
    if as_json:
        output.show_json({"removed": str(target)})
    else:
        output.show(f"{safe(target)} is removed")


def _ask(targets: list[Entity]) -> None:
    trashed = [str(target) for target in targets if target.kind in TRASHED]
    if trashed and not terminal.agrees(f"Remove {', '.join(trashed)}, and put the data into the trash?"):
        raise Problem("not_removed", "nothing was removed")


def _say_drains_on(target: Entity) -> Exit:
    output.tell(
        f"{target} is left draining and not removed",
        f"`pit remove {target} --drain` waits again, `pit set {target} state=online` lets it work again",
    )
    return Exit.INTERRUPTED
