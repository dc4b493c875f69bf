"""Checks of trees before they are used: complete, and not too large."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pit_protocol.problem import Problem
from pit_server.store.git.command import Git, GitFailed
from pit_server.store.git.fetch import cause
from pit_server.store.git.repository import EMPTY_TREE

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
    """Raise a Problem unless an object is here with all it refers to, except a commit's history."""
    if name == EMPTY_TREE:
        return
    try:
        for _ in git.stream("rev-list", "--objects", "--no-walk", "--quiet", name, "--"):
            pass
    except GitFailed as error:
        raise Problem(
            "objects_missing",
            f"{what} {name[:12]} is incomplete: {cause(error)}",
            "run again to send what is missing",
        ) from error


def check_kind(git: Git, name: str, kind: str) -> None:
    """Raise a Problem unless an object has the expected type."""
    if name != EMPTY_TREE and git.run("cat-file", "-t", name) != kind:
        raise Problem("bad_hash", f"{name[:12]} is not a {kind}")


def check_size(git: Git, tree: str, bounds: Bounds) -> None:
    """Raise a Problem if a tree exceeds the bounds."""
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
        f"let git ignore files that the job does not need; an admin can raise `{setting}`",
    )
