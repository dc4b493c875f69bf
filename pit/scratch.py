"""A git directory of our own over the user's work tree.

It sees the user's objects and, once it began, has a copy of his index; all that is written goes into it,
so his index, objects, stash and refs stay as they are. None of his attributes, filters and hooks count:
a file becomes an object byte by byte.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from pit.ignoring import IGNORE_FILE, exactly
from pit.looking import folds_case
from pit.project import Project
from pit.trouble import unreadable
from pit_protocol.problem import Problem

# `!` and not `-` for what takes a value: a `false` there is an error to git.
RAW = "* -text !eol !crlf !ident !filter !working-tree-encoding\n"
# What git must know of the work tree's file system, and of what the user ignores everywhere.
CARRIED = (
    "core.filemode",
    "core.symlinks",
    "core.precomposeunicode",
    "core.trustctime",
    "core.checkstat",
    "core.excludesfile",
    "core.sparsecheckout",
)
# Objects live for a moment: what is not compressed here is compressed once, in the pack.
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


class Scratch:
    def __init__(self, project: Project, place: Path, ignored: bytes = b"") -> None:
        self.project, self.directory = project, place
        self.ignored = ignored + _own_patterns(project)  # what only pit is to ignore
        (place / "objects" / "info").mkdir(parents=True)
        (place / "refs").mkdir()
        (place / "info").mkdir()
        (place / "HEAD").write_text("ref: refs/heads/scratch\n")
        (place / "config").write_text(CONFIG + _carried(project), errors="surrogateescape")
        (place / "info" / "attributes").write_text(RAW)
        (place / "info" / "exclude").write_bytes(_excludes(project) + self.ignored)
        self._env = {"GIT_DIR": str(place), "GIT_WORK_TREE": str(project.top)}
        if "objects" in project.paths:
            self.see(project.paths["objects"])

    @property
    def objects(self) -> Path:
        return self.directory / "objects"

    def begin(self) -> None:
        """Take the user's index; what was done to one before is forgotten."""
        if "index" in self.project.paths:
            _copy_index(self.project.paths["index"], self.directory)

    @contextmanager
    def other_index(self) -> Iterator["Scratch"]:
        """The same with an index of its own, which is empty."""
        other = copy(self)
        other._env = {**self._env, "GIT_INDEX_FILE": str(self.directory / "other-index")}
        yield other

    def entries(self) -> "list[Entry]":
        return parse_entries(self.run("ls-files", "-s", "-v", "-z"))

    def see(self, objects: Path) -> None:
        """Let git find the objects of another directory, too."""
        with (self.objects / "info" / "alternates").open("ab") as file:
            file.write(_quoted(os.fsencode(objects.resolve())) + b"\n")

    def run(
        self, *arguments: str, stdin: bytes | None = None, warn: Callable[[str], None] = lambda _: None
    ) -> bytes:
        return self.project.run(*arguments, env=self._env, stdin=stdin, warn=warn)

    def line(self, *arguments: str, stdin: bytes | None = None) -> str:
        return self.run(*arguments, stdin=stdin).decode().rstrip("\n")

    def forget(self, names: list[bytes]) -> None:
        """Take paths out of the index, whatever lies in the work tree."""
        if names:
            self.run("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join(names) + b"\0")

    def enter(self, entries: list[bytes]) -> None:
        """Put entries (`mode object TAB path`) into the index, without anything known of the file."""
        if entries:
            self.run("update-index", "-z", "--index-info", stdin=b"\0".join(entries) + b"\0")

    def ignore(self, paths: Iterable[bytes]) -> None:
        """Add exactly these paths to what is not taken."""
        with (self.directory / "info" / "exclude").open("ab") as file:
            file.writelines(exactly(path) + b"\n" for path in paths)

    def list_ignored(self, paths: list[bytes]) -> set[bytes]:
        """Those of the paths that are not to be taken."""
        if not paths:
            return set()
        try:
            asked = b"\0".join(paths)
            return set(self.run("check-ignore", "--no-index", "-z", "--stdin", stdin=asked).split(b"\0"))
        except Problem as problem:
            if not problem.message.endswith("exit code 1"):  # git's way to say that none is
                raise
            return set()

    def pack(self, listing: Path, target: Path) -> None:
        """The objects of the listing, as one file that is the same each time."""
        command = (*PACKING, "pack-objects", "--stdout", "--delta-base-offset", "-q")
        with listing.open("rb") as names, target.open("wb") as file:
            self.project.run(*command, env=self._env, stdin=names, stdout=file)


def parse_entries(listing: bytes) -> list[Entry]:
    entries = []
    for line in listing.split(b"\0"):
        if line:
            head, _, path = line.partition(b"\t")
            tag, mode, blob, _ = head.split(b" ")
            entries.append(Entry(tag, mode, blob, path))
    return entries


def _carried(project: Project) -> str:
    # Not what the repository says: with a disk that tells `a` from `A`, git would lose one of them.
    cases = f"ignorecase = {str(folds_case(project)).lower()}\n"
    lines = [
        f"{name[5:]} = {_config_value(project.setting(name))}\n" for name in CARRIED if project.setting(name)
    ]
    return cases + "".join(lines)


def _config_value(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _excludes(project: Project) -> bytes:
    """What the repository ignores by its own settings."""
    file = project.paths.get("info/exclude")
    return file.read_bytes() + b"\n" if file and file.is_file() else b""


def _own_patterns(project: Project) -> bytes:
    file = project.top / IGNORE_FILE
    try:
        return file.read_bytes() + b"\n" if file.is_file() else b""
    except OSError:
        raise unreadable(IGNORE_FILE) from None


def _copy_index(index: Path, place: Path) -> None:
    if not index.exists():
        return
    # With its times: git takes a file that is younger than the index for changed, and one that
    # was written at the same moment for doubtful. A younger copy would hide such a change.
    shutil.copy2(index, place / "index")
    for part in index.parent.glob("sharedindex.*"):
        shutil.copy2(part, place / part.name)


def _quoted(path: bytes) -> bytes:
    # A line of `alternates` that begins with a quote is read with escapes; others end at a newline.
    if path.startswith((b'"', b"#")) or b"\n" in path:
        return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return path
