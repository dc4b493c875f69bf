"""Keeping repositories small: refs that nobody needs, objects that no ref leads to."""

import shutil
from collections.abc import Sequence

from pit_server.store.repository import Repository

MANY_PACKS = 50
STALE = "1.day.ago"  # what came later may belong to a job that is about to be prepared


def refs(repository: Repository) -> list[str]:
    return repository.git.run("for-each-ref", "--format=%(refname)", "refs/pit/").splitlines()


def drop_refs(repository: Repository, names: Sequence[str]) -> bool:
    """Forget refs; the caller holds the lock."""
    if names:
        repository.git.run("update-ref", "--stdin", text="".join(f"delete {name}\n" for name in names))
    return bool(names)


def is_untidy(repository: Repository) -> bool:
    return len(list((repository.path / "objects" / "pack").glob("*.pack"))) > MANY_PACKS


def tidy(repository: Repository, *, prune: bool = True) -> None:
    """Pack what is needed and delete what is not; the caller holds the lock."""
    for leftover in repository.path.glob("incoming-*"):  # of a head that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    if prune:
        repository.git.run("gc", "--quiet", f"--prune={STALE}")
    else:
        # Others borrow from here, and may use what no ref of this repository leads to.
        repository.git.run("repack", "-a", "-d", "-l", "-k", "-q")


def give_back(store: Repository, mirror: Repository) -> None:
    """Make a store's own what it has borrowed; the caller holds the lock."""
    if store.borrows(mirror):
        store.git.run("repack", "-a", "-d", "-q")
        store.stop_borrowing(mirror)
