"""`pit remove`: move entities or files to the trash, or delete them for good."""

from collections.abc import Sequence
from http import HTTPStatus

import click
from msgspec import UNSET

from pit.args.completers import DOMAIN, ENTITY, completer
from pit.args.entities import COLLECTIONS, Entity, is_entity, parse_entities
from pit.args.options import example, json_option
from pit.args.remote_path import FIXED_DOMAINS, RemotePath, is_domain, is_remote_path, parse_remote_path
from pit.args.usage_problem import UsageProblem
from pit.commands.ls import find
from pit.commands.restore import find_in_trash, parse_trash_id
from pit.exit_codes import Exit
from pit.head.client import ONES_OWN, Head
from pit.head.files_api import FilesApi
from pit.head.latest import find_entity, find_path
from pit.jobs.drain_node import drain
from pit.login.session import open_head
from pit.ui import output, prompt
from pit.ui.documents import RemovedEntity
from pit.ui.plural import plural
from pit.ui.sanitize import sanitize
from pit_protocol.answers.files import TrashEmptied, TrashEntry
from pit_protocol.durations import DAY_S
from pit_protocol.problem import Problem

MOST_SHOWN = 20  # matches of a pattern
MOST_NAMED = 10  # in a question
TRASHED = ("user", "group", "job")  # kinds that have data


@click.command(
    "remove", epilog=example("pit rm 12-15", "pit rm home 'runs/*.tmp'", "pit remove node:n0 --drain")
)
@click.argument(
    "entities",
    nargs=-1,
    required=True,
    metavar="KIND:NAME... | ENTITY PATH...",
    shell_complete=completer(ENTITY, DOMAIN),
)
@click.option(
    "--drain",
    "drains",
    is_flag=True,
    help="Start no new processes on a node, and remove it when the running ones have ended.",
)
@click.option(
    "--lost",
    "is_lost",
    is_flag=True,
    help="Remove an offline node that will not come back; its jobs are marked lost.",
)
@click.option(
    "--purge", "purges", is_flag=True, help="Delete for good, including what is already in the trash."
)
@click.option("-y", "-f", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(
    entities: tuple[str, ...], drains: bool, is_lost: bool, purges: bool, yes: bool, as_json: bool
) -> Exit:
    """Remove users, groups, nodes, sites, aliases, ended jobs, or tokens.

    Refuses to remove what is in use, and says what uses it. Jobs (a range such as 190-199 names
    several), users and groups go to the trash with everything they have; on a terminal, pit asks
    first. `pit restore` brings them back. The exit code is 1 if one of them could not be removed;
    the others are removed anyway.

    --purge deletes them for good, after asking. `pit rm trash:17` does the same for one entry of
    `pit show trash`, and `pit rm --purge trash` for all of yours. Without a terminal, it needs
    --yes.

    Processes of a node that is removed with --lost may still run there. Their jobs are marked lost;
    if the node returns, its worker stops them.

    With a PATH, it moves files and directories of home, user:NAME or group:NAME to the trash: `pit
    rm home old/data`, or `pit rm home:old/data`. `pit restore` brings them back. PATH may be a
    pattern, as for `pit pull`: `pit rm home 'runs/*.tmp'`. If it matches several files, pit lists
    them and asks, on a terminal.
    """
    asks = not yes and prompt.is_interactive()
    if entities == ("trash",):
        return _empty_trash(yes, as_json)
    if files := _parse_files(entities):
        return _remove_files(files, asks, purges and _may_purge(entities, yes), as_json)
    targets = parse_entities(entities, tuple(COLLECTIONS))
    if (drains or is_lost) and any(target.kind != "node" for target in targets):
        raise UsageProblem(
            f"{'--drain' if drains else '--lost'} is for nodes", "leave it out for anything else"
        )
    if drains and is_lost:
        raise UsageProblem(
            "--drain and --lost exclude each other",
            "--drain waits for the processes of a node, --lost is for one that will not come back",
        )
    if purges and (foreign := [target for target in targets if target.kind not in (*TRASHED, "trash")]):
        raise click.UsageError(f"--purge is for jobs, users, groups and files, not for {foreign[0]}")
    purges = purges or any(target.kind == "trash" for target in targets)
    code = Exit.DONE
    with open_head() as head:
        targets = [find_entity(head, target) for target in targets]
        if purges:
            _may_purge(entities, yes)
        elif asks:
            _ask(entities, targets, is_lost)
        for target in targets:
            try:
                if purges:
                    _purge(head, target, as_json)
                else:
                    _remove(head, target, drains, is_lost, as_json)
            except Problem as problem:
                if problem.status not in ONES_OWN:
                    raise
                output.note(problem.message, problem.hint)
                code = Exit.PROBLEM
            except KeyboardInterrupt:
                if not drains:
                    raise
                return _note_draining(target)
    return code


def _empty_trash(yes: bool, as_json: bool) -> Exit:
    _may_purge(("all your files and jobs in the trash",), yes)
    with open_head() as head:
        count = head.empty_trash()
    if as_json:
        output.show_json(TrashEmptied(count))
    else:
        output.show("the trash is deleted for good" if count else "nothing of yours is in the trash")
    return Exit.DONE


def _parse_files(words: tuple[str, ...]) -> list[RemotePath]:
    """The paths that the words name; empty if they name entities."""
    first, *rest = words
    if rest and is_domain(first) and not any(is_entity(word) for word in rest if first not in FIXED_DOMAINS):
        return [parse_remote_path(first, path) for path in rest]
    if not any(is_remote_path(word) for word in words):
        return []
    return [parse_remote_path(word) for word in words]


def _remove_files(files: list[RemotePath], asks: bool, purges: bool, as_json: bool) -> Exit:
    code = Exit.DONE
    with open_head() as head:
        remote = FilesApi(head)
        found: list[RemotePath] = []
        for where in files:
            try:
                found += _matches(remote, find_path(head, where))
            except Problem as problem:
                code = _note(problem)
        found = list(dict.fromkeys(found))
        if asks and len(found) > 1 and any(where.is_pattern for where in files):
            _ask_for(found)
        for where in found:
            try:
                gone = remote.remove(where)
                if purges:
                    head.purge(gone.id)
            except Problem as problem:
                code = _note(problem)
                continue
            if as_json:
                output.show_json(gone)
            else:
                output.show(f"{where} is deleted for good" if purges else _in_trash(str(where), gone))
    return code


def _matches(remote: FilesApi, where: RemotePath) -> list[RemotePath]:
    """What a path names: itself, or everything that matches a pattern."""
    if not where.is_pattern or remote.get_entry(where) is not None:
        return [where]
    above, _ = where.split_pattern()
    return [above.below(entry.name) for entry in find(remote, where)]


def _note(problem: Problem) -> Exit:
    """Print a problem of one file; raise a problem that concerns all."""
    if problem.status not in (*ONES_OWN, 422):
        raise problem
    output.note(problem.message, problem.hint)
    return Exit.PROBLEM


def _ask_for(found: list[RemotePath]) -> None:
    for where in found[:MOST_SHOWN]:
        click.echo(f"  {where}", err=True)
    if len(found) > MOST_SHOWN:
        click.echo(f"  … and {len(found) - MOST_SHOWN:,} others", err=True)
    if not prompt.confirm(f"Move these {len(found):,} to the trash?"):
        raise Problem("not_removed", "nothing was removed")


def _remove(head: Head, target: Entity, drains: bool, is_lost: bool, as_json: bool) -> None:
    lost: list[int] = []
    trash: TrashEntry | None = None
    if drains:
        drain(head, target)
    elif is_lost:
        lost = head.remove_lost_node(target.path)
    else:
        trash = head.remove(target)
    if as_json:
        output.show_json(RemovedEntity(str(target), lost if is_lost else UNSET, trash or UNSET))
        return
    output.show(_in_trash(sanitize(target), trash) if trash else f"{sanitize(target)} is removed")
    if lost:
        jobs = f"job {lost[0]} is" if len(lost) == 1 else f"jobs {', '.join(map(str, lost))} are"
        output.show(f"{jobs} lost; processes that still run there are stopped when the node returns")


def _purge(head: Head, target: Entity, as_json: bool) -> None:
    """Delete something for good, whether it is still there or in the trash already."""
    is_there = target.kind == "trash"
    gone = head.purge(parse_trash_id(target.name) if is_there else _discard(head, target).id)
    if as_json:
        output.show_json(RemovedEntity(str(target), trash=gone, purged=True))
    else:
        output.show(f"{sanitize(target)} is deleted for good")


def _discard(head: Head, target: Entity) -> TrashEntry:
    """Its entry in the trash; what is not there yet is moved there first."""
    try:
        entry = head.remove(target)
    except Problem as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        entry = find_in_trash(head, target)
        if entry is None:
            raise
    if entry is None:  # a head of an older version
        raise Problem("no_such_trash", f"{target} is removed, and is not in the trash", status=404)
    return entry


def _may_purge(words: tuple[str, ...], yes: bool) -> bool:
    """Ask before something is deleted for good; without a terminal, only --yes will do."""
    if not yes and not prompt.is_interactive():
        raise click.UsageError("this deletes for good; add --yes to do so without a question")
    if not yes and not prompt.confirm(f"Delete {_some(words)} for good? Nobody can restore it."):
        raise Problem("not_removed", "nothing was removed")
    return True


def _in_trash(what: str, entry: TrashEntry) -> str:
    days = f" for {plural(round((entry.until - entry.at) / DAY_S), 'day')}" if entry.until else ""
    return f"{what} is in the trash{days}; `pit restore {entry.id}` brings it back"


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - MOST_NAMED:,} others" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more


def _ask(words: tuple[str, ...], targets: list[Entity], is_lost: bool) -> None:
    if is_lost and not prompt.confirm(
        f"Remove {', '.join(map(str, targets))}, and mark its jobs lost? They may still run."
    ):
        raise Problem("not_removed", "nothing was removed")
    has_data = any(target.kind in TRASHED for target in targets)
    if has_data and not prompt.confirm(f"Move {_some(words)} to the trash, with all data?"):
        raise Problem("not_removed", "nothing was removed")


def _note_draining(target: Entity) -> Exit:
    output.note(
        f"{target} is left draining and not removed",
        f"`pit remove {target} --drain` continues, `pit set {target} state=online` puts it back in service",
    )
    return Exit.INTERRUPTED
