"""Differences between two trees, as counts or as a patch."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pit_server.store.git.command import Git

# No rename detection, and no programs that a project's configuration names.
PLAIN = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


@dataclass(frozen=True)
class Change:
    path: str
    added: int | None  # lines; None: the file is binary
    removed: int | None


def changes(git: Git, old: str, new: str) -> Iterator[Change]:
    """The files that differ between two trees."""
    rest = b""
    for block in git.stream("diff-tree", "-r", "-z", "--numstat", *PLAIN, old, new, "--"):
        *lines, rest = (rest + block).split(b"\0")
        for line in lines:
            added, removed, path = line.split(b"\t", 2)
            yield Change(os.fsdecode(path), _count(added), _count(removed))


def patch(git: Git, old: str, new: str, *, binary: bool) -> Iterator[bytes]:
    """The difference between two trees as a patch; with `binary`, git can apply it in any case."""
    options = ("--binary", "--full-index") if binary else ("--full-index",)
    return git.stream("diff-tree", "-r", "-p", *options, *PLAIN, old, new, "--")


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
