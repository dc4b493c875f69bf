"""Whether two paths are the same place, or one holds the other: such a copy or move would destroy its source.

Names cannot tell, because links and two names of one domain lead to the same directory; inodes can.
"""

import os
from collections.abc import Iterator

from pit_protocol.problem import Problem
from pit_server.store.files.domain_files import Domain
from pit_server.store.files.openat import PLACE

MOST_LEVELS = 4096  # more than a path can have: a directory that is moved meanwhile must not hold us up
Identity = tuple[int, int]  # device and inode


def check_apart(source: Domain, old: str, target: Domain, new: str) -> None:
    """Raise a Problem if `new` is `old`, or inside it, or holds it."""
    moved, replaced = _get_identity(source, old), _get_identity(target, new)
    if moved is not None and moved == replaced:
        raise _refuse(f"{source.named(old)} and {target.named(new)} are the same")
    if moved in _list_above(target, new):
        raise _refuse(f"{target.named(new)} is inside {source.named(old)}")
    if replaced in _list_above(source, old):
        raise _refuse(f"{target.named(new)} holds {source.named(old)}")


def _refuse(why: str) -> Problem:
    return Problem("overlap", f"{why}: nothing was changed", "name another target", status=409)


def _get_identity(domain: Domain, path: str) -> Identity | None:
    with domain.parent(path) as (parent, name):
        try:
            return _identify(os.stat(name, dir_fd=parent, follow_symlinks=False))
        except FileNotFoundError:
            return None


def _list_above(domain: Domain, path: str) -> set[Identity]:
    """The directories that hold a path, up to its domain."""
    with domain.directory("") as root:
        top = _identify(os.fstat(root))
    with domain.parent(path) as (parent, _):
        return set(_climb(parent, top))


def _climb(directory: int, top: Identity) -> Iterator[Identity]:
    here = os.dup(directory)
    try:
        for _ in range(MOST_LEVELS):
            found = _identify(os.fstat(here))
            yield found
            if found == top:
                return
            above = os.open("..", PLACE | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = above
    finally:
        os.close(here)


def _identify(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
