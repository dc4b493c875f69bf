"""`pit remove`: take something away."""

import click

from pit import output, terminal
from pit.commands.ls import find
from pit.draining import drain
from pit.entities import FOLDERS, Entity, is_entity, parse_entity
from pit.exits import Exit
from pit.head import ONES_OWN, Head
from pit.locations import FIXED, Location, is_domain, is_location, parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit.remote import Remote
from pit.safe import safe
from pit_protocol.problem import Problem

MOST_SHOWN = 20  # of what fits a pattern
TRASHED = ("user", "group", "job")  # kinds that have data


@click.command("remove", epilog=example("pit rm home 'runs/*.tmp'", "pit remove node:n0 --drain"))
@click.argument("entities", nargs=-1, required=True, metavar="KIND:NAME... | ENTITY PATH...")
@click.option(
    "--drain", "drains", is_flag=True, help="Let a node's processes end first, and start no others."
)
@click.option(
    "--lost",
    "is_lost",
    is_flag=True,
    help="Remove a silent node that will not come back; what ran there is lost.",
)
@click.option("-y", "-f", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(entities: tuple[str, ...], drains: bool, is_lost: bool, yes: bool, as_json: bool) -> Exit:
    """Remove users, groups, nodes, aliases, ended jobs, or tokens.

    What is in use is not removed, and the head says by whom it is used. Data of users, groups and jobs
    goes to the head's trash; on a terminal you are asked first. The exit code is 1 if one of them could
    not be removed; the others are removed all the same.

    Processes of a node that is removed by --lost may still run there. Their jobs are told as lost; if the
    node returns, its worker is told to stop them.

    With a PATH, files and directories of home, user:NAME or group:NAME: `pit rm home old/data`, or in
    one word `pit rm home:old/data`. They go to the trash, from where `pit restore` brings them back.
    PATH may be a pattern, as for `pit pull`: `pit rm home 'runs/*.tmp'`. Where it fits several, you
    are shown them and asked on a terminal.
    """
    asks = not yes and terminal.is_interactive()
    if files := _parse_files(entities):
        return _remove_files(files, asks, as_json)
    targets = [parse_entity(text, tuple(FOLDERS)) for text in dict.fromkeys(entities)]
    if (drains or is_lost) and any(target.kind != "node" for target in targets):
        raise click.UsageError(f"{'--drain' if drains else '--lost'} is for nodes")
    if drains and is_lost:
        raise click.UsageError("--drain waits for processes, --lost gives them up: one of them")
    code = Exit.DONE
    with open_head() as head:
        if asks:
            _ask(targets, is_lost)
        for target in targets:
            try:
                _remove(head, target, drains, is_lost, as_json)
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


def _remove_files(files: list[Location], asks: bool, as_json: bool) -> Exit:
    code = Exit.DONE
    with open_head() as head:
        remote = Remote(head)
        found: list[Location] = []
        for where in files:
            try:
                found += _matches(remote, where)
            except Problem as problem:
                code = _tell(problem)
        found = list(dict.fromkeys(found))
        if asks and len(found) > 1 and any(where.is_pattern for where in files):
            _ask_for(found)
        for where in found:
            try:
                gone = remote.remove(where)
            except Problem as problem:
                code = _tell(problem)
                continue
            if as_json:
                output.show_json(gone)
            else:
                output.show(f"{where} is in the trash; `pit restore {gone['id']}` brings it back")
    return code


def _matches(remote: Remote, where: Location) -> list[Location]:
    """What a path names: itself, or all that fit a pattern but not what is in those."""
    if not where.is_pattern or remote.get_entry(where) is not None:
        return [where]
    above, _ = where.split_pattern()
    return [above.below(entry.name) for entry in find(remote, where)]


def _tell(problem: Problem) -> Exit:
    """Say what went wrong with one of them; what is wrong with all is raised."""
    if problem.status not in (*ONES_OWN, 422):
        raise problem
    output.tell(problem.message, problem.hint)
    return Exit.PROBLEM


def _ask_for(found: list[Location]) -> None:
    for where in found[:MOST_SHOWN]:
        click.echo(f"  {where}", err=True)
    if len(found) > MOST_SHOWN:
        click.echo(f"  … and {len(found) - MOST_SHOWN:,} others", err=True)
    if not terminal.agrees(f"Put these {len(found):,} into the trash?"):
        raise Problem("not_removed", "nothing was removed")


def _remove(head: Head, target: Entity, drains: bool, is_lost: bool, as_json: bool) -> None:
    lost: list[int] = []
    if drains:
        drain(head, target)
    elif is_lost:
        lost = head.give_up(target.path)
    else:
        head.remove(target.path)
    if as_json:
        output.show_json({"removed": str(target), **({"lost": lost} if is_lost else {})})
        return
    output.show(f"{safe(target)} is removed")
    if lost:
        jobs = f"job {lost[0]} is" if len(lost) == 1 else f"jobs {', '.join(map(str, lost))} are"
        output.show(f"{jobs} lost; what may still run there is stopped when the node returns")


def _ask(targets: list[Entity], is_lost: bool) -> None:
    if is_lost and not terminal.agrees(
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
