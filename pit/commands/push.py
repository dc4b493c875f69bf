"""`pit push`: copy into a data directory."""

import sys
from pathlib import Path

import click

from pit.args.completers import DOMAIN, complete_file, completer
from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath, parse_remote_path
from pit.exit_codes import Exit
from pit.head.files_api import DIRECTORY, FILE, FilesApi
from pit.login.session import open_head
from pit.transfer import local_files
from pit.transfer.push import Push, exists, is_same, send_stdin
from pit.ui import output
from pit.ui.documents import Transfer
from pit.ui.plural import plural
from pit.ui.progress import bars, hint_on_interrupt
from pit_protocol.problem import Problem

STDIN = "-"


@click.command("push", epilog=example("pit push home data/train ./train"))
@click.argument("entity", metavar="ENTITY", shell_complete=completer(DOMAIN))
@click.argument("words", nargs=-1, required=True, metavar="[PATH] LOCAL", shell_complete=complete_file)
@click.option("-f", "--force", is_flag=True, help="Overwrite existing files.")
@click.option(
    "-c",
    "--continue",
    "resume",
    is_flag=True,
    help="Resume: send only files whose size or time differs.",
)
@json_option
def command(entity: str, words: tuple[str, ...], force: bool, resume: bool, as_json: bool) -> Exit:
    """Copy LOCAL, a file or directory, to PATH of ENTITY: home, user:NAME or group:NAME.

    A directory becomes PATH. A file becomes PATH, or is copied into PATH if that is a directory. If
    PATH ends with /, or is missing, LOCAL is copied into it. home:PATH as one word also works;
    LOCAL can be - for stdin.

    A file gets its name only when it is complete. A broken transfer is resumed; -c resumes it
    later. Hashes are compared at the end.
    """
    if len(words) > 2:
        raise click.UsageError(f"{words[2]!r} is one word too many; name one file or directory")
    where = parse_remote_path(entity, words[0] if len(words) > 1 else None)
    is_inside = not where.path or (words[0] if len(words) > 1 else entity).endswith("/")
    with open_head() as head:
        remote = FilesApi(head)
        if words[-1] == STDIN:
            count, size = _send_stdin(remote, where, force, is_inside)
        else:
            with hint_on_interrupt(f"what was sent stays in {where}; run the same with `-c` to resume"):
                count, size, where = _push(remote, where, Path(words[-1]), force, resume, is_inside)
    if as_json:
        output.show_json(Transfer(count, size, f"{where.domain}:{where.path}"))
    else:
        output.show(f"{where}: {plural(count, 'file')}, {plural(size, 'byte')}")
    return Exit.DONE


def _send_stdin(remote: FilesApi, where: RemotePath, force: bool, is_inside: bool) -> tuple[int, int]:
    there = remote.get_entry(where) if where.path else None
    if is_inside or (there and there.kind == DIRECTORY):
        raise click.UsageError(f"{where} is a directory: name the file that stdin is to become")
    if there and not force:
        raise exists(where)
    with bars() as shown:
        if above := where.path.rpartition("/")[0]:
            remote.make_directory(RemotePath(where.domain, above))
        return 1, send_stdin(Push(remote, shown.begin(where.name), force), where, sys.stdin.buffer)


def _push(
    remote: FilesApi, where: RemotePath, local: Path, force: bool, resume: bool, is_inside: bool
) -> tuple[int, int, RemotePath]:
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
    if there and resume and is_same(entry, there):
        return 0, 0, where
    if there and not (force or resume):
        raise exists(where)
    if above := where.path.rpartition("/")[0]:
        remote.make_directory(RemotePath(where.domain, above), entry.size)
    with bars() as shown:
        Push(remote, shown.begin(where.name, entry.size), force, resume).file(local.resolve(), entry, where)
    return 1, entry.size, where


def _push_directory(
    remote: FilesApi, where: RemotePath, local: Path, force: bool, resume: bool
) -> tuple[int, int]:
    entries = list(local_files.walk(local))
    there = remote.get_entry(where)
    known = {entry.name: entry for entry in remote.entries(where, recursive="yes")} if there else {}
    files = [entry for entry in entries if entry.kind == FILE]
    size = sum(entry.size for entry in files)
    with bars() as shown:
        push = Push(remote, shown.begin(where.name, size), force, resume)
        count = push.directory(local, entries, where, known)
    kept = [entry for entry in files if resume and entry.name in known and is_same(entry, known[entry.name])]
    return count, size - sum(entry.size for entry in kept)
