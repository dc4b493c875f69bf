"""`pit restore`: bring back what is in the trash."""

import click

from pit.args.entities import Entity, is_entity, parse_entity
from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath
from pit.exit_codes import Exit
from pit.head.client import ONES_OWN, Head
from pit.login.session import open_head
from pit.ui import output
from pit_protocol.answers.files import TrashEntry
from pit_protocol.problem import Problem

RESTORABLE = ("job", "user", "group")


def parse_trash_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise click.BadParameter(f"{text!r} is not an ID; `pit show trash` lists them")
    return int(text)


def _parse(text: str) -> int | Entity:
    """A number is an ID of the trash, not a job."""
    if text[:1].isdecimal() or not is_entity(text):
        return parse_trash_id(text)
    return parse_entity(text, RESTORABLE)


@click.command("restore", epilog=example("pit restore 17", "pit restore job:190"))
@click.argument("what", nargs=-1, required=True, type=_parse, metavar="ID|KIND:NAME...")
@json_option
def command(what: tuple[int | Entity, ...], as_json: bool) -> Exit:
    """Restore from the trash; `pit show trash` lists the trash with its IDs.

    A job comes back with its record, log, files and code, a user or group with its files and
    memberships. It overwrites nothing, and fails if something else is there. The exit code is 1 if
    one of them could not be restored; the others are restored anyway.
    """
    code = Exit.DONE
    with open_head() as head:
        for each in what:
            try:
                record = head.restore(each if isinstance(each, int) else _entry(head, each).id)
            except Problem as problem:
                if problem.status not in ONES_OWN:
                    raise
                output.note(problem.message, problem.hint)
                code = Exit.PROBLEM
                continue
            if as_json:
                output.show_json(record)
            else:
                output.show(f"{RemotePath(record.domain, record.path)} is back")
    return code


def find_in_trash(head: Head, entity: Entity) -> TrashEntry | None:
    """The newest entry of a job, user or group."""
    return next(iter(head.trash(entity).trash), None)


def _entry(head: Head, entity: Entity) -> TrashEntry:
    found = find_in_trash(head, entity)
    if found is None:
        raise Problem("no_such_trash", f"{entity} is not in the trash", "`pit show trash`", status=404)
    return found
