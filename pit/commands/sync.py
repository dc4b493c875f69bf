"""`pit sync`: make a data directory like one on this machine."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import click

from pit import local_files, output
from pit.exits import Exit
from pit.locations import Location, outermost, parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit.progress import bars
from pit.pushing import Push, is_same
from pit.remote import DIRECTORY, FILE, Entry, Remote
from pit.safe import safe
from pit_protocol.problem import Problem


@click.command("sync", epilog=example("pit sync ./data home:data --delete"))
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("entity", metavar="ENTITY")
@click.argument("path", required=False)
@click.option("--delete", "deletes", is_flag=True, help="Put into the trash there what is not here.")
@click.option("--checksum", is_flag=True, help="Compare contents, not size and time.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be done.")
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
    """Send what is new or changed in DIRECTORY to PATH of ENTITY: home, user:NAME or group:NAME.

    One way, from here to there. What .gitignore and .pitignore name stays here. Files are the same if
    size and time are.
    """
    where = parse_location(entity, path)
    entries = local_files.walk_unignored(directory)
    with open_head() as head:
        remote = Remote(head)
        there = {entry.name: entry for entry in _there(remote, where)}
        changed = [entry for entry in entries if _differs(remote, where, directory, entry, there, checksum)]
        extra = outermost(there.keys() - {entry.name for entry in entries}) if deletes else []
        if not dry_run:
            _send(remote, where, directory, changed, there)
            for name in extra:
                remote.remove(where.below(name))
    _tell([entry.name for entry in changed if entry.kind != DIRECTORY], extra, dry_run, as_json)
    return Exit.DONE


def _there(remote: Remote, where: Location) -> Iterable[Entry]:
    entry = remote.get_entry(where)
    if entry is None:
        return []
    if entry.kind != DIRECTORY:
        raise Problem("no_directory", f"{where} is no directory")
    return remote.entries(where, recursive="yes")


def _differs(
    remote: Remote, where: Location, directory: Path, entry: Entry, there: dict[str, Entry], checksum: bool
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
    remote: Remote, where: Location, directory: Path, changed: list[Entry], there: dict[str, Entry]
) -> None:
    if not changed and there:
        return
    # What is of another kind there is in the way.
    for entry in changed:
        known = there.get(entry.name)
        if known and known.kind != entry.kind and DIRECTORY in (known.kind, entry.kind):
            remote.remove(where.below(entry.name))
    size = sum(entry.size for entry in changed if entry.kind == FILE)
    with bars() as shown:
        push = Push(remote, shown.begin(where.name, size), force=True)
        push.directory(directory, changed, where, there if there else {})


def _tell(sent: list[str], removed: list[str], dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.show_json({"sent": sent, "removed": removed, "dry_run": dry_run})
        return
    if dry_run:
        for sign, names in (("+", sent), ("-", removed)):
            for name in names:
                output.show(f"{sign} {safe(name)}")
    would = "would be " if dry_run else ""
    output.show(f"{len(sent):,} {would}sent, {len(removed):,} {would}removed")
