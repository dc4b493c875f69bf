"""Make a backup, while a head serves or not."""

import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

from pit_protocol import __version__
from pit_protocol.atomic_file import sync_directory
from pit_protocol.problem import Problem
from pit_server.admin.backup.manifest import DATABASE, FORMAT, HOME, HOME_FILES, MANIFEST, Manifest, hash_file
from pit_server.db import dump
from pit_server.settings import Settings


def make(settings: Settings, file: Path, *, now: float | None = None) -> None:
    """Write a backup with mode 0600; an older one of that name is replaced when the new one is complete."""
    if not settings.home.is_dir():
        raise Problem("no_home", f"there is no directory {settings.home}")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as scratch:
            folder = Path(scratch)
            _collect(settings, folder, time.time() if now is None else now)
            _pack(folder, file)
    except OSError as error:
        raise Problem(
            "no_backup", f"{file} cannot be written: {(error.strerror or str(error)).lower()}"
        ) from error


def _collect(settings: Settings, folder: Path, now: float) -> None:
    url = settings.sqlalchemy_url
    for name in (DATABASE, HOME):
        (folder / name).mkdir()
    tables = dump.save(url, folder / DATABASE)
    for name in HOME_FILES:
        if (settings.home / name).exists():
            shutil.copyfile(settings.home / name, folder / HOME / name)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {str(path.relative_to(folder)): hash_file(path) for path in paths}
    manifest = Manifest(FORMAT, __version__, tables, dump.kind_of(url), now, hashes)
    (folder / MANIFEST).write_text(manifest.to_text())


def _pack(folder: Path, file: Path) -> None:
    partial = folder / "backup.part"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        with tarfile.open(fileobj=target, mode="w") as tar:
            # The manifest last: a file that was cut off has none.
            for path in (folder / DATABASE, folder / HOME, folder / MANIFEST):
                tar.add(path, path.name, filter=_private)
        target.flush()
        os.fsync(descriptor)
    partial.replace(file)
    sync_directory(file.parent)


def _private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode = 0o700 if member.isdir() else 0o600
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
