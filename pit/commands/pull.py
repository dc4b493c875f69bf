"""`pit pull`: copy out of a data directory."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pit.args.completers import DOMAIN, PATH, completer
from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath, parse_remote_path
from pit.commands.ls import find
from pit.exit_codes import Exit
from pit.head.files_api import DIRECTORY, FILE, Content, Entry, FilesApi
from pit.head.latest import find_path
from pit.login.session import open_head
from pit.snapshot.exclude import leaving_out
from pit.transfer import pulled
from pit.transfer.pull import Pull, check_place, copy_to_stdout, exists, is_unfinished
from pit.ui import output
from pit.ui.documents import Transfer
from pit.ui.plural import plural
from pit.ui.progress import bars, hint_on_interrupt
from pit.ui.sanitize import sanitize
from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import DirectoryTree

STDOUT = "-"


@click.command(
    "pull", epilog=example("pit cp 190 keep/model.bin ./", "pit pull 190 'keep/**/*.ckpt' checkpoints")
)
@click.argument("entity", metavar="ENTITY", shell_complete=completer(DOMAIN))
@click.argument("words", nargs=-1, metavar="PATH [LOCAL]", shell_complete=completer(PATH))
@click.option("-f", "--force", is_flag=True, help="Overwrite existing files.")
@click.option(
    "-c",
    "--continue",
    "resume",
    is_flag=True,
    help="Resume: copy only files whose size or time differs.",
)
@json_option
def command(entity: str, words: tuple[str, ...], force: bool, resume: bool, as_json: bool) -> Exit:
    """Copy PATH of ENTITY to LOCAL; the default is the current directory.

    ENTITY is a job's number, home, user:NAME, group:NAME or shared; home:PATH as one word also
    works. PATH is a file, a directory, or a pattern (*, ?, [a-z], **). LOCAL is a file, a directory
    to copy into, or - for stdout. A file gets its name only when it is complete. A broken transfer
    is resumed; -c resumes it later. Hashes are compared at the end. New files inside a project are
    added to its .git/info/exclude, so that git and the next `pit run` ignore them.
    """
    where, local = _parse(entity, words)
    with open_head() as head:
        remote, where = FilesApi(head), find_path(head, where)
        if local == STDOUT:
            copy_to_stdout(remote, where, sys.stdout.buffer)
            return Exit.DONE
        with hint_on_interrupt(f"what was copied stays in {local}; run the same with `-c` to resume"):
            count, size, target = _pull(remote, where, Path(local), force, resume)
    if as_json:
        output.show_json(Transfer(count, size, str(target)))
    else:
        output.show(f"{sanitize(target)}: {plural(count, 'file')}, {plural(size, 'byte')}")
    return Exit.DONE


def _parse(entity: str, words: tuple[str, ...]) -> tuple[RemotePath, str]:
    """`190 PATH LOCAL`, `190 PATH`, `home:PATH LOCAL`, `home:PATH`, or `190` for all of it."""
    if len(words) > 2:
        raise click.UsageError(f"{words[2]!r} is one word too many; quote a pattern")
    own = parse_remote_path(entity)
    if own.path:
        if len(words) > 1:
            raise click.UsageError(f"{entity!r} has a path already; write LOCAL alone after it")
        return own, words[0] if words else "."
    return parse_remote_path(entity, words[0] if words else None), words[1] if len(words) > 1 else "."


def _pull(
    remote: FilesApi, where: RemotePath, local: Path, force: bool, resume: bool
) -> tuple[int, int, Path]:
    """Copy what `where` names; returns the number of files, of bytes, and the target."""
    if where.is_pattern and remote.get_entry(where) is None:
        return _pull_matches(remote, where, local, force, resume)
    entry = remote.entry(where)
    source = f"{remote.head.connection.url} {where.route}"
    is_again = (resume and is_unfinished(where, local)) or (
        (resume or force) and pulled.is_copy(source, local)
    )
    name = where.name if local.is_dir() and not is_again else ""
    target = local / name
    if entry.kind == DIRECTORY:
        entries = list(remote.entries(where, recursive="yes"))
        count, size = _copy(remote, where, entries, local, name, force, resume)
        pulled.note(source, target)
        return count, size, target
    if entry.kind != FILE:
        # The head follows a link that stays in the domain; only the head knows its target.
        content = _content(remote, where)
        entry = Entry(entry.name, FILE, content.size, content.mtime, entry.mode, "")
    entry = Entry(target.name, *_fields(entry))
    check_place(target)
    with leaving_out([target]), bars() as shown, DirectoryTree.at(target.parent) as tree:
        pull = Pull(remote, shown.begin(where.name, entry.size), force, resume)
        if not pull.wants(entry, tree):
            return 0, 0, target
        pull.file(where, entry, tree)
    return 1, entry.size, target


def _pull_matches(
    remote: FilesApi, where: RemotePath, local: Path, force: bool, resume: bool
) -> tuple[int, int, Path]:
    found = find(remote, where)
    above, _ = where.split_pattern()
    _check_names(above, found, local, force or resume)
    count = size = 0
    for entry in found:
        source = above.below(entry.name)
        if entry.kind == DIRECTORY:
            entries = list(remote.entries(source, recursive="yes"))
            some = _copy(remote, source, entries, local, source.name, force, resume)
            count, size = count + some[0], size + some[1]
    flat: dict[str, list[Entry]] = {}
    for entry in found:
        if entry.kind != DIRECTORY:
            flat.setdefault(entry.name.rpartition("/")[0], []).append(entry)
    for folder, entries in flat.items():
        short = [Entry(entry.name.rpartition("/")[2], *_fields(entry)) for entry in entries]
        some = _copy(remote, above.below(folder), short, local, "", force, resume)
        count, size = count + some[0], size + some[1]
    return count, size, local


def _check_names(above: RemotePath, found: Sequence[Entry], local: Path, replaces: bool) -> None:
    """All go into one directory: copy nothing if two have the same name."""
    taken: dict[str, RemotePath] = {}
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
    remote: FilesApi,
    where: RemotePath,
    entries: list[Entry],
    local: Path,
    name: str,
    force: bool,
    resume: bool,
) -> tuple[int, int]:
    size = sum(entry.size for entry in entries if entry.kind == FILE)
    targets = [local / name, *(local / name / entry.name for entry in entries)]
    with leaving_out(targets), bars() as shown:
        pull = Pull(remote, shown.begin(where.name, size), force, resume)
        return pull.directory(where, entries, local, name)


def _fields(entry: Entry) -> tuple[str, int, float, int, str]:
    return entry.kind, entry.size, entry.mtime, entry.mode, entry.target


def _content(remote: FilesApi, where: RemotePath) -> Content:
    content = remote.content(where)
    if not content.etag:
        raise Problem("no_file", f"{where} is not a file")
    return content
