"""Looking at trees before anything is made of them: all there, and of a size that the head can bear."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pit_protocol.problem import Problem
from pit_server.store.fetching import cause
from pit_server.store.git import Git, GitFailed
from pit_server.store.repository import EMPTY_TREE

SYMLINK, GITLINK, PROGRAM = "120000", "160000", "100755"


@dataclass(frozen=True)
class Bounds:
    files: int
    size: int  # bytes


@dataclass(frozen=True)
class Entry:
    """One file of a tree."""

    mode: str
    oid: str
    size: int
    path: bytes

    @property
    def name(self) -> str:
        return os.fsdecode(self.path)


def check_whole(git: Git, what: str, name: str) -> None:
    """Raise a Problem unless an object is here with all that belongs to it; of a commit, not its history."""
    if name == EMPTY_TREE:
        return
    try:
        for _ in git.stream("rev-list", "--objects", "--no-walk", "--quiet", name, "--"):
            pass
    except GitFailed as error:
        raise Problem(
            "objects_missing",
            f"{what} {name[:12]} is not here as a whole: {cause(error)}",
            "run again; what is missing is sent then",
        ) from error


def check_kind(git: Git, name: str, kind: str) -> None:
    """Raise a Problem unless an object is what it is said to be."""
    if name != EMPTY_TREE and git.run("cat-file", "-t", name) != kind:
        raise Problem("bad_hash", f"{name[:12]} is no {kind}")


def check_size(git: Git, tree: str, bounds: Bounds) -> None:
    """Raise a Problem as soon as a tree turns out to be larger than it may be."""
    size = 0
    for files, entry in enumerate(entries(git, tree), start=1):
        size += entry.size
        if files > bounds.files:
            raise _too_large(f"more than {bounds.files} files", "max_tree_files")
        if size > bounds.size:
            raise _too_large(f"more than {bounds.size / (1 << 30):g} GiB", "max_tree_gib")


def entries(git: Git, tree: str) -> Iterator[Entry]:
    """All files of a tree, in git's order."""
    rest = b""
    for block in git.stream("ls-tree", "-r", "-l", "-z", "--full-tree", tree, "--"):
        *lines, rest = (rest + block).split(b"\0")
        for line in lines:
            facts, _, path = line.partition(b"\t")
            mode, _, oid, size = facts.decode().split()
            yield Entry(mode, oid, 0 if size == "-" else int(size), path)


def _too_large(what: str, setting: str) -> Problem:
    return Problem(
        "tree_too_large",
        f"the tree has {what}",
        f"let git ignore what the job does not need; an admin can raise `{setting}`",
    )
