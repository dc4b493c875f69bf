"""A temporary git directory for the user's work tree.

It reads the user's objects and can copy the user's index. Everything is written to the scratch
directory, so the user's index, objects, stash and refs stay as they are. The user's attributes, filters and
hooks are ignored: each file becomes an object byte for byte.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from pit.snapshot.git_status import ignores_case
from pit.snapshot.ignore import IGNORE_FILE, literal_pattern
from pit.snapshot.read_errors import unreadable
from pit.snapshot.repository import Repository
from pit_protocol.problem import Problem

# `!` instead of `-` for attributes with a value: git rejects `false` there.
RAW_ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding\n"
# Settings that describe the work tree's file system, and the user's global ignore file.
COPIED_SETTINGS = (
    "core.filemode",
    "core.symlinks",
    "core.precomposeunicode",
    "core.trustctime",
    "core.checkstat",
    "core.excludesfile",
    "core.sparsecheckout",
)
# Objects are short-lived: compress them only once, in the pack.
CONFIG = "[pack]\ncompression = 0\n[core]\nrepositoryformatversion = 0\nbare = false\nlooseCompression = 0\n"
PACKING = ("-c", "pack.compression=1", "-c", "pack.threads=1", "-c", "core.bigFileThreshold=32m")

LINK, SUBMODULE = b"120000", b"160000"


@dataclass(frozen=True)
class Entry:
    """One line of the index."""

    tag: bytes
    mode: bytes
    blob: bytes
    path: bytes

    @property
    def line(self) -> bytes:
        return self.mode + b" " + self.blob + b"\t" + self.path


class ScratchRepo:
    def __init__(self, repo: Repository, directory: Path, ignored: bytes = b"") -> None:
        self.repo, self.directory = repo, directory
        self.ignored = ignored + _pitignore(repo)  # patterns of .pitignore files, unknown to git
        (directory / "objects" / "info").mkdir(parents=True)
        (directory / "refs").mkdir()
        (directory / "info").mkdir()
        (directory / "HEAD").write_text("ref: refs/heads/scratch\n")
        (directory / "config").write_text(CONFIG + _copied_settings(repo), errors="surrogateescape")
        (directory / "info" / "attributes").write_text(RAW_ATTRIBUTES)
        (directory / "info" / "exclude").write_bytes(_excludes(repo) + self.ignored)
        self._env = {"GIT_DIR": str(directory), "GIT_WORK_TREE": str(repo.top)}
        if "objects" in repo.paths:
            self.add_alternate(repo.paths["objects"])

    @property
    def objects(self) -> Path:
        return self.directory / "objects"

    def copy_user_index(self) -> None:
        """Replace the index by a copy of the user's."""
        if "index" in self.repo.paths:
            _copy_index(self.repo.paths["index"], self.directory)

    @contextmanager
    def separate_index(self) -> Iterator["ScratchRepo"]:
        """The same repository with a second, empty index."""
        other = copy(self)
        other._env = {**self._env, "GIT_INDEX_FILE": str(self.directory / "other-index")}
        yield other

    def entries(self) -> "list[Entry]":
        return parse_entries(self.run("ls-files", "-s", "-v", "-z"))

    def add_alternate(self, objects: Path) -> None:
        """Let git also read the objects in this directory."""
        with (self.objects / "info" / "alternates").open("ab") as file:
            file.write(_quoted(os.fsencode(objects.resolve())) + b"\n")

    def run(
        self, *arguments: str, stdin: bytes | None = None, warn: Callable[[str], None] = lambda _: None
    ) -> bytes:
        return self.repo.run(*arguments, env=self._env, stdin=stdin, warn=warn)

    def line(self, *arguments: str, stdin: bytes | None = None) -> str:
        return self.run(*arguments, stdin=stdin).decode().rstrip("\n")

    def remove_entries(self, paths: list[bytes]) -> None:
        """Remove paths from the index, whether or not the files exist."""
        if paths:
            self.run("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join(paths) + b"\0")

    def add_entries(self, entries: list[bytes]) -> None:
        """Set entries (`mode object TAB path`) without file times, so that git reads the files again."""
        if entries:
            self.run("update-index", "-z", "--index-info", stdin=b"\0".join(entries) + b"\0")

    def ignore(self, paths: Iterable[bytes]) -> None:
        """Ignore exactly these paths from now on."""
        with (self.directory / "info" / "exclude").open("ab") as file:
            file.writelines(literal_pattern(path) + b"\n" for path in paths)

    def list_ignored(self, paths: list[bytes]) -> set[bytes]:
        """The paths that are ignored."""
        if not paths:
            return set()
        try:
            asked = b"\0".join(paths)
            return set(self.run("check-ignore", "--no-index", "-z", "--stdin", stdin=asked).split(b"\0"))
        except Problem as problem:
            if not problem.message.endswith("exit code 1"):  # git's answer if none is ignored
                raise
            return set()

    def pack(self, listing: Path, target: Path) -> None:
        """Write the listed objects to one pack, which is the same each time."""
        command = (*PACKING, "pack-objects", "--stdout", "--delta-base-offset", "-q")
        with listing.open("rb") as names, target.open("wb") as file:
            self.repo.run(*command, env=self._env, stdin=names, stdout=file)


def parse_entries(listing: bytes) -> list[Entry]:
    entries = []
    for line in listing.split(b"\0"):
        if line:
            head, _, path = line.partition(b"\t")
            tag, mode, blob, _ = head.split(b" ")
            entries.append(Entry(tag, mode, blob, path))
    return entries


def _copied_settings(repo: Repository) -> str:
    # Not the repository's own setting: on a file system that distinguishes `a` and `A`, git would lose one.
    case = f"ignorecase = {str(ignores_case(repo)).lower()}\n"
    lines = [
        f"{name[5:]} = {_config_value(repo.setting(name))}\n"
        for name in COPIED_SETTINGS
        if repo.setting(name)
    ]
    return case + "".join(lines)


def _config_value(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _excludes(repo: Repository) -> bytes:
    """The patterns in the repository's info/exclude."""
    file = repo.paths.get("info/exclude")
    return file.read_bytes() + b"\n" if file and file.is_file() else b""


def _pitignore(repo: Repository) -> bytes:
    file = repo.top / IGNORE_FILE
    try:
        return file.read_bytes() + b"\n" if file.is_file() else b""
    except OSError:
        raise unreadable(IGNORE_FILE) from None


def _copy_index(index: Path, directory: Path) -> None:
    if not index.exists():
        return
    # Keep the index's own time: git reads a file again if it is as new as the index or newer.
    # A newer copy of the index would hide a change made at that moment.
    shutil.copy2(index, directory / "index")
    for part in index.parent.glob("sharedindex.*"):
        shutil.copy2(part, directory / part.name)


def _quoted(path: bytes) -> bytes:
    # Git reads a line of `alternates` with escapes only if it begins with a quote.
    if path.startswith((b'"', b"#")) or b"\n" in path:
        return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return path
