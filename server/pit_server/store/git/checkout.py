"""Writing a tree to disk, without any conversion of its bytes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pit_server.store.git.command import Git


@contextmanager
def index_of(git: Git, tree: str) -> Iterator[Git]:
    """A git whose index holds the tree, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pit-index-") as scratch:
        indexed = replace(git, env={**git.env, "GIT_INDEX_FILE": f"{scratch}/index"})
        indexed.run("read-tree", tree)
        yield indexed


def check_out(indexed: Git, target: Path) -> None:
    """Write all files of the index into the empty directory `target`."""
    indexed.run("checkout-index", "--all", "--quiet", env={"GIT_WORK_TREE": str(target)})
