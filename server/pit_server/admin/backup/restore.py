"""Restore a backup: into a home where no head serves, and over nothing that is there, unless forced.

What a restored file replaces goes to `replaced-<time>` in the home.
"""

import os
import shutil
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pit_protocol.problem import Problem
from pit_server.admin.backup.manifest import DATABASE, HOME, HOME_FILES, MANIFEST, Manifest, hash_file, parse
from pit_server.db import dump, lock, migrate
from pit_server.settings import Settings, load


def restore(home: Path, file: Path, *, force: bool = False) -> tuple[Manifest, Settings]:
    """Raises a Problem, and then nothing has changed."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=home) as scratch:
        folder = Path(scratch)
        manifest = _unpack(file, folder)
        migrate.check_not_newer(manifest.tables)
        settings = replace(load(folder / HOME), home=home)
        url = settings.sqlalchemy_url
        if manifest.database != dump.kind_of(url):
            raise Problem(
                "bad_backup",
                f"{file} is of a head on {manifest.database}, and the settings name {dump.kind_of(url)}",
                "is PIT_HEAD_DATABASE_URL set? the backup has a head.toml of its own",
            )
        held = lock.try_hold(url)
        if held is None:
            raise Problem("head_runs", f"a head serves {home}", "stop it before you restore a backup")
        try:
            _put_in_place(folder, manifest, settings, force=force)
        finally:
            held.close()
    return manifest, settings


def _unpack(file: Path, folder: Path) -> Manifest:
    try:
        with tarfile.open(file, "r:") as tar:
            _extract(tar, folder)
        manifest = parse((folder / MANIFEST).read_text())
    except (tarfile.TarError, ValueError, TypeError, FileNotFoundError) as error:
        if not file.exists():
            raise Problem("no_backup", f"there is no file {file}") from error
        raise Problem("bad_backup", f"{file} is not a complete backup of a head") from error
    for path, known in manifest.hashes.items():
        if not (folder / path).is_file() or hash_file(folder / path) != known:
            raise Problem("bad_backup", f"{file} is damaged: {path} has changed", "use another backup")
    return manifest


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Files and directories below the folder. Python before 3.11.4 has no filter that refuses others."""
    for member in tar:
        path = PurePosixPath(member.name)
        is_below = not path.is_absolute() and ".." not in path.parts
        if is_below and member.isdir():
            (folder / path).mkdir(mode=0o700)
        elif is_below and member.isfile() and (source := tar.extractfile(member)):
            with source, (folder / path).open("xb") as target:
                shutil.copyfileobj(source, target)
        else:
            raise tarfile.TarError(f"{member.name} is not a file of a backup")


def _put_in_place(folder: Path, manifest: Manifest, settings: Settings, *, force: bool) -> None:
    url, home = settings.sqlalchemy_url, settings.home
    files = {
        folder / HOME / name: home / name
        for name in HOME_FILES
        if f"{HOME}/{name}" in manifest.hashes and _differs(home / name, manifest.hashes[f"{HOME}/{name}"])
    }
    if manifest.database == dump.SQLITE:
        files[folder / DATABASE / dump.SQLITE_FILE] = dump.sqlite_path(url)
    taken = [str(target) for target in files.values() if target.exists()]
    if manifest.database == dump.POSTGRES and dump.is_there(url):
        taken.append("the tables in PostgreSQL")
    if taken and not force:
        raise Problem(
            "exists",
            f"restoring would replace {', '.join(taken)}",
            "--force does so; the files go to a directory in the home, the tables are dropped",
        )
    if manifest.database == dump.POSTGRES:
        dump.load_postgres(url, folder / DATABASE, manifest.tables)
    aside = home / f"replaced-{time.strftime('%Y%m%d-%H%M%S')}"
    for source, target in files.items():
        _set_aside(target, aside)
        _give_to_owner(source, home)
        source.rename(target)


def _differs(target: Path, known: str) -> bool:
    return not target.exists() or hash_file(target) != known


def _set_aside(target: Path, aside: Path) -> None:
    """With the files that SQLite keeps beside a database, which belong to the old one."""
    for path in (target, *(target.with_name(target.name + suffix) for suffix in ("-wal", "-shm"))):
        if path.exists():
            aside.mkdir(mode=0o700, exist_ok=True)
            path.rename(aside / path.name)


def _give_to_owner(path: Path, home: Path) -> None:
    path.chmod(0o600)
    if os.geteuid() == 0:
        found = home.stat()
        os.chown(path, found.st_uid, found.st_gid)
