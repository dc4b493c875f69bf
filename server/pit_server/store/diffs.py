"""What differs between two trees, counted or as a text."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pit_server.store.git import Git

# Neither renames nor programs: each file stands for itself, and nothing of the project's is run.
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


def patch(git: Git, old: str, new: str) -> Iterator[bytes]:
    """The difference between two trees, from which git could make one of the other."""
    return git.stream("diff-tree", "-r", "-p", "--binary", "--full-index", *PLAIN, old, new, "--")


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
