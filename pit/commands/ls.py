"""`pit ls`: what is in a data directory."""

from collections.abc import Collection, Mapping
from functools import lru_cache

import click

from pit.args.completers import DOMAIN, PATH, completer
from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath, outermost, parse_remote_path
from pit.exit_codes import Exit
from pit.head.files_api import DIRECTORY, LINK, Entry, FilesApi
from pit.head.latest import find_path
from pit.login.session import open_head
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section, render_plain
from pit.ui.times import local_time
from pit_protocol.problem import Problem

COLUMNS = (Column("MODE"), Column("SIZE", right=True), Column("CHANGED"), Column("NAME"))
LETTERS = {DIRECTORY: "d", LINK: "l", "file": "-", "other": "?"}


@click.command("ls", epilog=example("pit ls 190 keep"))
@click.argument("entity", metavar="ENTITY", shell_complete=completer(DOMAIN))
@click.argument("path", required=False, shell_complete=completer(PATH))
@click.option("-R", "--recursive", is_flag=True, help="List recursively.")
@json_option
def command(entity: str, path: str | None, recursive: bool, as_json: bool) -> Exit:
    """List PATH of ENTITY: a job's number, home, user:NAME, group:NAME or shared.

    PATH may be a pattern: *, ? and [a-z] within a name, ** for any number of directories. Links are
    listed as links.
    """
    where = parse_remote_path(entity, path)
    with open_head() as head:
        remote, where = FilesApi(head), find_path(head, where)
        place, params = _question(remote, where, recursive=recursive)
        if as_json:
            found = remote.listing(place, **params)
            _check(where, params, found.entries)
            output.show_json(found)
            return Exit.DONE
        rows = [_row(entry) for entry in remote.entries(place, **params)]
    _check(where, params, rows)
    # Nothing is cut to the terminal's width, because only a whole name is of use.
    output.show(render_plain(COLUMNS, [Section("", rows)]))
    return Exit.DONE


def find(remote: FilesApi, where: RemotePath) -> list[Entry]:
    """What matches a pattern; a matching directory stands for everything in it."""
    above, pattern = where.split_pattern()
    found = {entry.name: entry for entry in remote.entries(above, glob=pattern)}
    _check(where, {"glob": pattern}, found)
    return [found[name] for name in outermost(found)]


def _question(
    remote: FilesApi, where: RemotePath, *, recursive: bool = False
) -> tuple[RemotePath, dict[str, str]]:
    """Where to look, and how."""
    if where.is_pattern and remote.get_entry(where) is None:
        above, pattern = where.split_pattern()
        return above, {"glob": pattern}
    return where, {"list": "yes", **({"recursive": "yes"} if recursive else {})}


def _check(where: RemotePath, params: Mapping[str, str], found: Collection[object]) -> None:
    if "glob" in params and not found:
        raise Problem("no_match", f"nothing matches {where}", "`pit ls` lists what is there", status=404)


def _row(entry: Entry) -> tuple[str, ...]:
    name = sanitize(entry.name) + ("/" if entry.kind == DIRECTORY else "")
    if entry.kind == LINK:
        name += f" -> {sanitize(entry.target)}"
    size = f"{entry.size:,}" if entry.kind == "file" else "-"
    return f"{LETTERS[entry.kind]}{_rights(entry.mode)}", size, _time(int(entry.mtime)), name


_time = lru_cache(maxsize=4096)(local_time)  # many files have the same time


@lru_cache(maxsize=512)
def _rights(mode: int) -> str:
    return "".join(letter if mode >> 8 - i & 1 else "-" for i, letter in enumerate("rwxrwxrwx"))
