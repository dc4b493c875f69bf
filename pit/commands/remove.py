"""`pit remove`: take something away."""

import click

from pit import output, terminal
from pit.draining import drain
from pit.entities import FOLDERS, Entity, is_entity, parse_entity
from pit.exits import Exit
from pit.head import ONES_OWN, Head
from pit.locations import FIXED, Location, is_domain, is_location, parse_location
from pit.opening import open_head
from pit.options import example, json_option, yes_option
from pit.remote import Remote
from pit.safe import safe
from pit_protocol.problem import Problem

TRASHED = ("user", "group", "job")  # kinds that have data


@click.command("remove", epilog=example("pit remove node:n0 --drain"))
@click.argument("entities", nargs=-1, required=True, metavar="KIND:NAME... | ENTITY PATH...")
@click.option(
    "--drain", "drains", is_flag=True, help="Let a node's processes end first, and start no others."
)
@click.option(
    "--force", is_flag=True, help="Remove a silent node that will not come back; what ran there is lost."
)
@yes_option
@json_option
def command(entities: tuple[str, ...], drains: bool, force: bool, yes: bool, as_json: bool) -> Exit:
    """Remove users, groups, nodes, aliases, ended jobs, or tokens.

    What is in use is not removed, and the head says by whom it is used. Data of users, groups and jobs
    goes to the head's trash; on a terminal you are asked first. The exit code is 1 if one of them could
    not be removed; the others are removed all the same.

    Processes of a node that is removed by --force may still run there. Their jobs are told as lost; if the
    node returns, its worker is told to stop them.

    With a PATH, files and directories of home, user:NAME or group:NAME: `pit rm home old/data`, or in
    one word `pit rm home:old/data`. They go to the trash, from where `pit restore` brings them back.
    """
    if files := _parse_files(entities):
        return _remove_files(files, as_json)
    targets = [parse_entity(text, tuple(FOLDERS)) for text in dict.fromkeys(entities)]
    if (drains or force) and any(target.kind != "node" for target in targets):
        raise click.UsageError(f"{'--drain' if drains else '--force'} is for nodes")
    if drains and force:
        raise click.UsageError("--drain waits for processes, --force gives them up: one of them")
    code = Exit.DONE
    with open_head() as head:
        if not yes and terminal.is_interactive():
            _ask(targets, force)
        for target in targets:
            try:
                _remove(head, target, drains, force, as_json)
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


def _parse_files(words: tuple[str, ...]) -> list[Location]:
    """What the words name if they name files; empty if they name entities."""
    first, *rest = words
    if rest and is_domain(first) and not any(is_entity(word) for word in rest if first not in FIXED):
        return [parse_location(first, path) for path in rest]
    if not any(is_location(word) for word in words):
        return []
    return [parse_location(word) for word in words]


def _remove_files(files: list[Location], as_json: bool) -> Exit:
    code = Exit.DONE
    with open_head() as head:
        for where in files:
            try:
                gone = Remote(head).remove(where)
            except Problem as problem:
                if problem.status not in (*ONES_OWN, 422):
                    raise
                output.tell(problem.message, problem.hint)
                code = Exit.PROBLEM
                continue
            if as_json:
                output.show_json(gone)
            else:
                output.show(f"{where} is in the trash; `pit restore {gone['id']}` brings it back")
    return code


def _remove(head: Head, target: Entity, drains: bool, force: bool, as_json: bool) -> None:
    lost: list[int] = []
    if drains:
        drain(head, target)
    elif force:
        lost = head.give_up(target.path)
    else:
        head.remove(target.path)
    if as_json:
        output.show_json({"removed": str(target), **({"lost": lost} if force else {})})
        return
    output.show(f"{safe(target)} is removed")
    if lost:
        jobs = f"job {lost[0]} is" if len(lost) == 1 else f"jobs {', '.join(map(str, lost))} are"
        output.show(f"{jobs} lost; what may still run there is stopped when the node returns")


def _ask(targets: list[Entity], force: bool) -> None:
    if force and not terminal.agrees(
        f"Remove {', '.join(map(str, targets))}, and take the jobs there for lost? They may still run."
    ):
        raise Problem("not_removed", "nothing was removed")
    trashed = [str(target) for target in targets if target.kind in TRASHED]
    if trashed and not terminal.agrees(f"Remove {', '.join(trashed)}, and put the data into the trash?"):
        raise Problem("not_removed", "nothing was removed")


def _say_drains_on(target: Entity) -> Exit:
    output.tell(
        f"{target} is left draining and not removed",
        f"`pit remove {target} --drain` waits again, `pit set {target} state=online` lets it work again",
    )
    return Exit.INTERRUPTED
