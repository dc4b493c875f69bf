"""Listing a local directory that will be copied."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pit.head.files_api import DIRECTORY, FILE, LINK, Entry
from pit_protocol.problem import Problem

IGNORE_FILES = (".gitignore", ".pitignore")


def walk(directory: Path) -> Iterator[Entry]:
    """Everything below it, directories before their content; pipes and the like are left out."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(directory / above) as found:
            names = sorted(entry.name for entry in found)
        for name in names:
            path = f"{above}/{name}" if above else name
            entry = read(directory, path)
            if entry is not None:
                yield entry
                if entry.kind == DIRECTORY:
                    waiting.append(path)


def walk_unignored(directory: Path) -> list[Entry]:
    """Everything that neither `.gitignore` nor `.pitignore` leaves out, and the directories it is in."""
    kept = set.intersection(*(_unignored(directory, name) for name in IGNORE_FILES))
    folders = {parent for path in kept for parent in _parents(path)}
    entries = (read(directory, path) for path in sorted(folders | kept))
    return [entry for entry in entries if entry is not None]


def read(directory: Path, path: str) -> Entry | None:
    """One entry; None if it is gone or cannot be copied."""
    place = directory / path
    try:
        status = place.lstat()
    except FileNotFoundError:
        return None
    mode, kind = stat.S_IMODE(status.st_mode), ""
    if stat.S_ISREG(status.st_mode):
        kind = FILE
    elif stat.S_ISDIR(status.st_mode):
        kind = DIRECTORY
    elif stat.S_ISLNK(status.st_mode):
        kind = LINK
    target = str(place.readlink()) if kind == LINK else ""
    return Entry(path, kind, status.st_size, status.st_mtime, mode, target) if kind else None


def _unignored(directory: Path, ignore_file: str) -> set[str]:
    """Files that are not ignored by files of this name, as git reads them; no project is needed."""
    with tempfile.TemporaryDirectory() as place:
        _git(["init", "--quiet", "--bare", place], directory)
        listed = _git(
            [
                f"--git-dir={place}",
                f"--work-tree={directory.absolute()}",
                *("-c", "core.bare=false", "-c", "core.excludesFile="),
                *("ls-files", "-z", "--others", f"--exclude-per-directory={ignore_file}"),
            ],
            directory,
        )
    found: set[str] = set()
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if name.endswith("/"):  # a nested repository, which git does not list
            inner = _unignored(directory / name, ignore_file)
            found.update(f"{name}{path}" for path in inner)
        else:
            found.add(name)
    return found


def _git(arguments: Sequence[str], directory: Path) -> bytes:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=directory, env=environment, check=True, capture_output=True
        )
    except FileNotFoundError:
        raise Problem("no_git", "git is not installed, and reads the ignore files", "install git") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
        raise Problem("no_list", f"{directory} cannot be listed: {why}") from error
    return done.stdout


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
