"""`pit ls`: what is in a data directory."""

from collections.abc import Collection, Mapping
from functools import lru_cache

import click

from pit import output
from pit.exits import Exit
from pit.locations import Location, outermost, parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit.remote import DIRECTORY, LINK, Entry, Remote
from pit.safe import safe
from pit.tables import Column, Section, render_plain
from pit.times import local_time
from pit_protocol.problem import Problem

COLUMNS = (Column("MODE"), Column("SIZE", right=True), Column("CHANGED"), Column("NAME"))
LETTERS = {DIRECTORY: "d", LINK: "l", "file": "-", "other": "?"}


@click.command("ls", epilog=example("pit ls 190 keep"))
@click.argument("entity", metavar="ENTITY")
@click.argument("path", required=False)
@click.option("-R", "--recursive", is_flag=True, help="Also what is in the directories below.")
@json_option
def command(entity: str, path: str | None, recursive: bool, as_json: bool) -> Exit:
    """List PATH of ENTITY: a job's number, home, user:NAME, group:NAME or shared.

    PATH may be a pattern: *, ? and [a-z] within a name, ** for any directories between. Links are
    listed as links.
    """
    where = parse_location(entity, path)
    with open_head() as head:
        remote = Remote(head)
        place, params = _question(remote, where, recursive=recursive)
        if as_json:
            found = remote.listing(place, **params)
            _check(where, params, found["entries"])
            output.show_json(found)
            return Exit.DONE
        rows = [_row(entry) for entry in remote.entries(place, **params)]
    _check(where, params, rows)
    # Nothing is cut to a terminal's width: a name is of use only as a whole.
    output.show(render_plain(COLUMNS, [Section("", rows)]))
    return Exit.DONE


def find(remote: Remote, where: Location) -> list[Entry]:
    """What fits a pattern, but not what is in those: who takes a directory takes all of it."""
    above, pattern = where.split_pattern()
    found = {entry.name: entry for entry in remote.entries(above, glob=pattern)}
    _check(where, {"glob": pattern}, found)
    return [found[name] for name in outermost(found)]


def _question(remote: Remote, where: Location, *, recursive: bool = False) -> tuple[Location, dict[str, str]]:
    """Where to look, and how."""
    if where.is_pattern and remote.get_entry(where) is None:
        above, pattern = where.split_pattern()
        return above, {"glob": pattern}
    return where, {"list": "yes", **({"recursive": "yes"} if recursive else {})}


def _check(where: Location, params: Mapping[str, str], found: Collection[object]) -> None:
    if "glob" in params and not found:
        raise Problem("no_match", f"nothing fits {where}", "`pit ls` lists what there is", status=404)


def _row(entry: Entry) -> tuple[str, ...]:
    name = safe(entry.name) + ("/" if entry.kind == DIRECTORY else "")
    if entry.kind == LINK:
        name += f" -> {safe(entry.target)}"
    size = f"{entry.size:,}" if entry.kind == "file" else "-"
    return f"{LETTERS[entry.kind]}{_rights(entry.mode)}", size, _time(int(entry.mtime)), name


_time = lru_cache(maxsize=4096)(local_time)  # files come in bunches


@lru_cache(maxsize=512)
def _rights(mode: int) -> str:
    return "".join(letter if mode >> 8 - i & 1 else "-" for i, letter in enumerate("rwxrwxrwx"))
