"""Directories of elements: each has its own, and all share the tree of their array, which nobody changes."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from pit_protocol.messages.beat import Account
from pit_server.services.files import unix_ids
from pit_server.store.data_root import DataRoot
from pit_server.store.files.tree_walk import walk

READ = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def make(data: DataRoot, element: int, attempt: int, account: Account | None) -> None:
    """Make the directory of an element's attempt, unless it is there."""
    directory = data.attempt(element, attempt)
    (directory / "keep").mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    if account:
        unix_ids.give_once(directory, account)


def protect(tree: Path) -> None:
    """Let everybody read a tree, and nobody write to it: one element must not change what another reads."""
    for visit in walk(tree, strict=True):
        for name, status in visit.entries:
            if stat.S_ISREG(status.st_mode):
                with suppress(FileNotFoundError):
                    is_program = status.st_mode & stat.S_IXUSR
                    os.chmod(name, READ | EXECUTE if is_program else READ, dir_fd=visit.directory)
        os.fchmod(visit.directory, READ | EXECUTE)
