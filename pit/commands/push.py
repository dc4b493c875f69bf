"""`pit push`: copy into a data directory."""

import sys
from pathlib import Path

import click

from pit import local_files, output
from pit.counts import counted
from pit.exits import Exit
from pit.locations import Location, parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit.progress import bars, resumable
from pit.pushing import Push, exists, is_settled, send_stdin
from pit.remote import DIRECTORY, FILE, Remote
from pit_protocol.problem import Problem

STDIN = "-"


@click.command("push", epilog=example("pit push home data/train ./train"))
@click.argument("entity", metavar="ENTITY")
@click.argument("words", nargs=-1, required=True, metavar="[PATH] LOCAL")
@click.option("-f", "--force", is_flag=True, help="Overwrite what is there.")
@click.option("-c", "--continue", "resume", is_flag=True, help="Send only what is missing or newer.")
@json_option
def command(entity: str, words: tuple[str, ...], force: bool, resume: bool, as_json: bool) -> Exit:
    """Copy LOCAL, a file or directory, to PATH of ENTITY: home, user:NAME or group:NAME.

    A directory becomes PATH, a file too, or goes into it if PATH is a directory; with / at its end, or
    without it, LOCAL is copied into it. home:PATH in one word works, too; LOCAL can be - for stdin.

    A file is whole or not there; a transfer that breaks off is taken up again, later by -c. Hashes are
    compared at the end.
    """
    if len(words) > 2:
        raise click.UsageError(f"{words[2]!r} is one word too many; name one file or directory")
    where = parse_location(entity, words[0] if len(words) > 1 else None)
    is_inside = not where.path or (words[0] if len(words) > 1 else entity).endswith("/")
    with open_head() as head:
        remote = Remote(head)
        if words[-1] == STDIN:
            count, size = _send_stdin(remote, where, force, is_inside)
        else:
            with resumable("the same with `-c` goes on from here"):
                count, size, where = _push(remote, where, Path(words[-1]), force, resume, is_inside)
    if as_json:
        output.show_json({"files": count, "bytes": size, "target": f"{where.domain}:{where.path}"})
    else:
        output.show(f"{where}: {counted(count, 'file')}, {counted(size, 'byte')}")
    return Exit.DONE


def _send_stdin(remote: Remote, where: Location, force: bool, is_inside: bool) -> tuple[int, int]:
    there = remote.get_entry(where) if where.path else None
    if is_inside or (there and there.kind == DIRECTORY):
        raise click.UsageError(f"{where} is a directory: name the file that stdin is to become")
    if there and not force:
        raise exists(where)
    with bars() as shown:
        if above := where.path.rpartition("/")[0]:
            remote.make_directory(Location(where.domain, above))
        return 1, send_stdin(Push(remote, shown.begin(where.name), force), where, sys.stdin.buffer)


def _push(
    remote: Remote, where: Location, local: Path, force: bool, resume: bool, is_inside: bool
) -> tuple[int, int, Location]:
    own = local_files.read(local.absolute().parent, local.absolute().name or ".")
    if own is None or not local.exists():
        raise Problem(
            "no_file", f"{local} is not there, or no file and no directory", "name one on this machine"
        )
    there = remote.get_entry(where)
    if is_inside or (there and there.kind == DIRECTORY and not local.is_dir()):
        where = where.below(local.absolute().name)
        there = remote.get_entry(where)
    if local.is_dir():
        return (*_push_directory(remote, where, local, force, resume), where)
    entry = local_files.read(local.resolve().parent, local.resolve().name)
    if entry is None or entry.kind != FILE:
        raise Problem("no_file", f"{local} is neither file nor directory")
    if there and there.kind == DIRECTORY:
        raise Problem("is_directory", f"{where} is a directory")
    if there and resume and is_settled(entry, there):
        return 0, 0, where
    if there and not (force or resume):
        raise exists(where)
    if above := where.path.rpartition("/")[0]:
        remote.make_directory(Location(where.domain, above), entry.size)
    with bars() as shown:
        Push(remote, shown.begin(where.name, entry.size), force, resume).file(local.resolve(), entry, where)
    return 1, entry.size, where


def _push_directory(
    remote: Remote, where: Location, local: Path, force: bool, resume: bool
) -> tuple[int, int]:
    entries = list(local_files.walk(local))
    there = remote.get_entry(where)
    known = {entry.name: entry for entry in remote.entries(where, recursive="yes")} if there else {}
    files = [entry for entry in entries if entry.kind == FILE]
    size = sum(entry.size for entry in files)
    with bars() as shown:
        push = Push(remote, shown.begin(where.name, size), force, resume)
        count = push.directory(local, entries, where, known)
    kept = [
        entry for entry in files if resume and entry.name in known and is_settled(entry, known[entry.name])
    ]
    return count, size - sum(entry.size for entry in kept)
