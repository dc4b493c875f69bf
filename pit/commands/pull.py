"""`pit pull`: copy out of a data directory."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pit import output
from pit.commands.ls import find
from pit.counts import counted
from pit.exits import Exit
from pit.locations import Location, parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit.progress import bars, resumable
from pit.pulling import Pull, exists, is_unfinished, pass_on
from pit.remote import DIRECTORY, FILE, Entry, Remote
from pit.safe import safe
from pit_protocol.problem import Problem

STDOUT = "-"


@click.command(
    "pull", epilog=example("pit cp 190 keep/model.bin ./", "pit pull 190 'keep/**/*.ckpt' checkpoints")
)
@click.argument("entity", metavar="ENTITY")
@click.argument("words", nargs=-1, metavar="PATH [LOCAL]")
@click.option("-f", "--force", is_flag=True, help="Overwrite what is there.")
@click.option("-c", "--continue", "resume", is_flag=True, help="Take only what is missing or newer.")
@json_option
def command(entity: str, words: tuple[str, ...], force: bool, resume: bool, as_json: bool) -> Exit:
    """Copy PATH of ENTITY to LOCAL, which is the current directory if it is left away.

    ENTITY is a job's number, home, user:NAME, group:NAME or shared; home:PATH in one word works, too.
    PATH is a file, a directory, or a pattern (*, ?, [a-z], **); LOCAL is where to, or - for stdout. If
    LOCAL is a directory, the copy goes into it. A file is whole or not there; a transfer that breaks
    off is taken up again, later by -c. Hashes are compared at the end.
    """
    where, local = _parse(entity, words)
    with open_head() as head:
        remote = Remote(head)
        if local == STDOUT:
            pass_on(remote, where, sys.stdout.buffer)
            return Exit.DONE
        with resumable("the same with `-c` goes on from here"):
            count, size, target = _pull(remote, where, Path(local), force, resume)
    if as_json:
        output.show_json({"files": count, "bytes": size, "target": str(target)})
    else:
        output.show(f"{safe(target)}: {counted(count, 'file')}, {counted(size, 'byte')}")
    return Exit.DONE


def _parse(entity: str, words: tuple[str, ...]) -> tuple[Location, str]:
    """`190 PATH LOCAL`, `190 PATH`, `home:PATH LOCAL`, `home:PATH`, or `190` for all of it."""
    if len(words) > 2:
        raise click.UsageError(f"{words[2]!r} is one word too many; quote a pattern")
    own = parse_location(entity)
    if own.path:
        if len(words) > 1:
            raise click.UsageError(f"{entity!r} has a path already; write LOCAL alone after it")
        return own, words[0] if words else "."
    return parse_location(entity, words[0] if words else None), words[1] if len(words) > 1 else "."


def _pull(remote: Remote, where: Location, local: Path, force: bool, resume: bool) -> tuple[int, int, Path]:
    """Copy what `where` names; how many files, how many bytes, and where they are."""
    if where.is_pattern and remote.get_entry(where) is None:
        return _pull_matches(remote, where, local, force, resume)
    entry = remote.entry(where)
    goes_on = resume and is_unfinished(where, local)
    target = local / where.name if local.is_dir() and not goes_on else local
    if entry.kind == DIRECTORY:
        entries = list(remote.entries(where, recursive="yes"))
        return (*_copy(remote, where, entries, target, force, resume), target)
    if entry.kind != FILE:
        # A link that stays below is followed by the head; only it knows what is behind.
        entry = Entry(entry.name, FILE, _size(remote, where), entry.mtime, entry.mode, "")
    with bars() as shown:
        bar = shown.begin(where.name, entry.size)
        pull = Pull(remote, bar, force, resume)
        if not pull.wants(Entry(target.name, *_fields(entry)), target.parent):
            return 0, 0, target
        pull.file(where, entry, target)
    return 1, entry.size, target


def _pull_matches(
    remote: Remote, where: Location, local: Path, force: bool, resume: bool
) -> tuple[int, int, Path]:
    found = find(remote, where)
    above, _ = where.split_pattern()
    _check_names(above, found, local, force or resume)
    count = size = 0
    for entry in found:
        source = above.below(entry.name)
        if entry.kind == DIRECTORY:
            entries = list(remote.entries(source, recursive="yes"))
            some = _copy(remote, source, entries, local / source.name, force, resume)
            count, size = count + some[0], size + some[1]
    flat: dict[str, list[Entry]] = {}
    for entry in found:
        if entry.kind != DIRECTORY:
            flat.setdefault(entry.name.rpartition("/")[0], []).append(entry)
    for folder, entries in flat.items():
        short = [Entry(entry.name.rpartition("/")[2], *_fields(entry)) for entry in entries]
        some = _copy(remote, above.below(folder), short, local, force, resume)
        count, size = count + some[0], size + some[1]
    return count, size, local


def _check_names(above: Location, found: Sequence[Entry], local: Path, replaces: bool) -> None:
    """All go into one directory: nothing is copied if one would take another's place there."""
    taken: dict[str, Location] = {}
    for entry in found:
        source = above.below(entry.name)
        target = local / source.name
        if other := taken.get(source.name):
            hint = "pull the directory that they are in, or one after the other"
            raise Problem("same_name", f"{other} and {source} would both become {target}", hint)
        taken[source.name] = source
        if entry.kind != DIRECTORY and not replaces and os.path.lexists(target):
            raise exists(target)


def _copy(
    remote: Remote, where: Location, entries: list[Entry], target: Path, force: bool, resume: bool
) -> tuple[int, int]:
    size = sum(entry.size for entry in entries if entry.kind == FILE)
    with bars() as shown:
        return Pull(remote, shown.begin(where.name, size), force, resume).directory(where, entries, target)


def _fields(entry: Entry) -> tuple[str, int, float, int, str]:
    return entry.kind, entry.size, entry.mtime, entry.mode, entry.target


def _size(remote: Remote, where: Location) -> int:
    content = remote.content(where)
    if not content.etag:
        raise Problem("no_file", f"{where} is no file")
    return content.size
