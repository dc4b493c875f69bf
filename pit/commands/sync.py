"""`pit sync`: update a data directory from a local one."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import click

from pit.args.completers import DOMAIN, PATH, completer
from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath, outermost, parse_remote_path
from pit.exit_codes import Exit
from pit.head.files_api import DIRECTORY, FILE, Entry, FilesApi
from pit.login.session import open_head
from pit.transfer import local_files
from pit.transfer.push import Push, is_same
from pit.ui import output
from pit.ui.documents import SyncResult
from pit.ui.progress import bars
from pit.ui.sanitize import sanitize
from pit_protocol.problem import Problem


@click.command("sync", epilog=example("pit sync ./data home:data --delete"))
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("entity", metavar="ENTITY", shell_complete=completer(DOMAIN))
@click.argument("path", required=False, shell_complete=completer(PATH))
@click.option(
    "--delete", "deletes", is_flag=True, help="Move remote files that are missing locally to the trash."
)
@click.option("--checksum", is_flag=True, help="Compare contents, not size and time.")
@click.option("-n", "--dry-run", is_flag=True, help="Only print what would be done.")
@json_option
def command(
    directory: Path,
    entity: str,
    path: str | None,
    deletes: bool,
    checksum: bool,
    dry_run: bool,
    as_json: bool,
) -> Exit:
    """Send new and changed files in DIRECTORY to PATH of ENTITY: home, user:NAME or group:NAME.

    Copies one way, from here to the head. Files that .gitignore or .pitignore name are not sent.
    Files with the same size and time count as unchanged.
    """
    where = parse_remote_path(entity, path)
    entries = local_files.walk_unignored(directory)
    with open_head() as head:
        remote = FilesApi(head)
        there = {entry.name: entry for entry in _there(remote, where)}
        changed = [entry for entry in entries if _differs(remote, where, directory, entry, there, checksum)]
        extra = outermost(there.keys() - {entry.name for entry in entries}) if deletes else []
        if not dry_run:
            _send(remote, where, directory, changed, there)
            for name in extra:
                remote.remove(where.below(name))
    _report([entry.name for entry in changed if entry.kind != DIRECTORY], extra, dry_run, as_json)
    return Exit.DONE


def _there(remote: FilesApi, where: RemotePath) -> Iterable[Entry]:
    entry = remote.get_entry(where)
    if entry is None:
        return []
    if entry.kind != DIRECTORY:
        raise Problem("no_directory", f"{where} is not a directory")
    return remote.entries(where, recursive="yes")


def _differs(
    remote: FilesApi,
    where: RemotePath,
    directory: Path,
    entry: Entry,
    there: dict[str, Entry],
    checksum: bool,
) -> bool:
    known = there.get(entry.name)
    if known is None or known.kind != entry.kind:
        return True
    if entry.kind == DIRECTORY:
        return False
    if not checksum or entry.kind != FILE or known.size != entry.size:
        return not is_same(entry, known)
    with (directory / entry.name).open("rb") as file:
        own = hashlib.file_digest(file, "sha256").hexdigest()
    return own != remote.sha256(where.below(entry.name), entry.size)


def _send(
    remote: FilesApi, where: RemotePath, directory: Path, changed: list[Entry], there: dict[str, Entry]
) -> None:
    if not changed and there:
        return
    # A file cannot replace a directory, nor a directory a file: remove it first.
    for entry in changed:
        known = there.get(entry.name)
        if known and known.kind != entry.kind and DIRECTORY in (known.kind, entry.kind):
            remote.remove(where.below(entry.name))
    size = sum(entry.size for entry in changed if entry.kind == FILE)
    with bars() as shown:
        push = Push(remote, shown.begin(where.name, size), force=True)
        push.directory(directory, changed, where, there if there else {})


def _report(sent: list[str], removed: list[str], dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.show_json(SyncResult(sent, removed, dry_run))
        return
    if dry_run:
        for sign, names in (("+", sent), ("-", removed)):
            for name in names:
                output.show(f"{sign} {sanitize(name)}")
    would = "would be " if dry_run else ""
    output.show(f"{len(sent):,} {would}sent, {len(removed):,} {would}removed")
