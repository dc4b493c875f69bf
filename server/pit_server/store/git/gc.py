"""Garbage collection of repositories: unneeded refs, unreachable objects."""

import shutil
from collections.abc import Sequence

from pit_server.store.git.repository import Repository

MANY_PACKS = 50
STALE = "1.day.ago"  # newer objects may belong to a job that is about to be prepared


def refs(repository: Repository) -> list[str]:
    return repository.git.run("for-each-ref", "--format=%(refname)", "refs/pit/").splitlines()


def drop_refs(repository: Repository, names: Sequence[str]) -> bool:
    """Delete refs; the caller holds the lock."""
    if names:
        repository.git.run("update-ref", "--stdin", text="".join(f"delete {name}\n" for name in names))
    return bool(names)


def is_untidy(repository: Repository) -> bool:
    return len(list((repository.path / "objects" / "pack").glob("*.pack"))) > MANY_PACKS


def tidy(repository: Repository, *, prune: bool = True) -> None:
    """Repack, and with `prune` delete unreachable objects; the caller holds the lock."""
    for leftover in repository.path.glob("incoming-*"):  # left by a killed head
        shutil.rmtree(leftover, ignore_errors=True)
    if prune:
        repository.git.run("gc", "--quiet", f"--prune={STALE}")
    else:
        # Stores have this mirror as alternate, and may use objects that are unreachable here.
        repository.git.run("repack", "-a", "-d", "-l", "-k", "-q")


def copy_from_alternate(store: Repository, mirror: Repository) -> None:
    """Copy the objects that a store uses of a mirror into the store; the caller holds the lock."""
    if store.has_alternate(mirror):
        store.git.run("repack", "-a", "-d", "-q")
        store.remove_alternate(mirror)
