"""The head's bare repositories: shared mirrors of remotes, and one store for each user.

A ref guarantees that the object it names is complete: `refs/pit/trees/<tree>` and
`refs/pit/commits/<commit>`, the latter without its history.
"""

import os
import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pit_server import cancellation
from pit_server.store.git.command import Git, GitFailed

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # exists in every repository
# No conversions, whatever a project's own .gitattributes say.
ATTRIBUTES = (
    "* -text !eol !crlf !ident !filter !working-tree-encoding !export-ignore !export-subst !diff !merge\n"
)
TREES, COMMITS = "refs/pit/trees/", "refs/pit/commits/"
ASK_S = 1.0  # how often one who waits for a lock looks whether that is still wanted
_locks: defaultdict[Path, threading.RLock] = defaultdict(threading.RLock)


@dataclass(frozen=True)
class Repository:
    git: Git

    @property
    def path(self) -> Path:
        return self.git.directory

    @property
    def exists(self) -> bool:
        return (self.path / "info" / "attributes").exists()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Serializes changes; reading needs no lock."""
        lock = _locks[self.path]
        while not lock.acquire(timeout=ASK_S):
            cancellation.check()
        try:
            yield
        finally:
            lock.release()

    def create(self) -> None:
        if self.exists:
            return
        with self.lock():
            if self.exists:
                return
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.git.run("init", "--quiet", "--bare", "--template=")
            (self.path / "info").mkdir(exist_ok=True)
            (self.path / "info" / "attributes").write_text(ATTRIBUTES)

    def marked(self, *, trees: Iterable[str] = (), commits: Iterable[str] = ()) -> set[str]:
        """The trees and commits that are known to be complete here."""
        names = [*(TREES + tree for tree in trees), *(COMMITS + commit for commit in commits)]
        found = {EMPTY_TREE for name in names if name == TREES + EMPTY_TREE}
        if not names or not self.exists:
            return found
        missing = set(self.git.missing(*names))
        return found | {name.rpartition("/")[2] for name in names if name not in missing}

    def has_marks(self, *, trees: Iterable[str] = (), commits: Iterable[str] = ()) -> bool:
        """Whether all have marks that are files of their own, so that no git has to be asked."""
        names = [*(TREES + tree for tree in trees), *(COMMITS + commit for commit in commits)]
        return all((self.path / name).is_file() for name in names)

    def mark(self, *, trees: Iterable[str] = (), commits: Iterable[str] = ()) -> None:
        """Mark these as complete; the caller holds the lock and has checked them."""
        new = [commit for commit in commits if not self.marked(commits=[commit])]
        # Their parents are missing, and git must not look for them.
        with (self.path / "shallow").open("a") as file:
            file.writelines(f"{commit}\n" for commit in new)
        lines = [f"update {COMMITS}{commit} {commit}" for commit in new]
        lines += [f"update {TREES}{tree} {tree}" for tree in trees if tree != EMPTY_TREE]
        if lines:
            self.git.run("update-ref", "--stdin", text="\n".join(lines) + "\n")

    def unmark(self, *, trees: Iterable[str] = (), commits: Iterable[str] = ()) -> None:
        names = [*(TREES + tree for tree in trees), *(COMMITS + commit for commit in commits)]
        self.git.run("update-ref", "--stdin", text="".join(f"delete {name}\n" for name in names))

    @contextmanager
    def whole(self, tree: str) -> Iterator[None]:
        """Work with a marked tree; if git fails, the mark was wrong and is removed."""
        try:
            yield
        except GitFailed:
            with self.lock():
                self.unmark(trees=[tree])
            raise

    def add_alternate(self, other: "Repository") -> None:
        """Use the objects of another repository too."""
        if not other.exists:
            return
        if self.has_alternate(other):
            return
        with self.lock():
            self._write_alternates([*self._list_alternates(), str(other.path / "objects")])

    def drop_partial_packs(self) -> None:
        """Delete the leftovers of a failed fetch; the caller holds the lock."""
        for path in (self.path / "objects" / "pack").glob("tmp_*"):
            path.unlink(missing_ok=True)

    def has_alternate(self, other: "Repository") -> bool:
        return str(other.path / "objects") in self._list_alternates()

    def remove_alternate(self, other: "Repository") -> None:
        """The caller holds the lock and has copied all objects that are needed."""
        self._write_alternates(
            [line for line in self._list_alternates() if line != str(other.path / "objects")]
        )

    @property
    def _alternates(self) -> Path:
        return self.path / "objects" / "info" / "alternates"

    def _list_alternates(self) -> list[str]:
        return self._alternates.read_text().splitlines() if self._alternates.exists() else []

    def _write_alternates(self, lines: list[str]) -> None:
        partial = self._alternates.with_name("alternates.part")
        self._alternates.parent.mkdir(exist_ok=True)
        partial.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
        partial.replace(self._alternates)


class Quarantine:
    """New objects: visible to `git`, and in the repository only after `keep`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._place = Path(tempfile.mkdtemp(prefix="incoming-", dir=repository.path))
        (self._place / "pack").mkdir()
        env = {
            "GIT_OBJECT_DIRECTORY": str(self._place),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(repository.path / "objects"),
        }
        self.git = replace(repository.git, env=env)

    def __enter__(self) -> "Quarantine":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._place, ignore_errors=True)

    def keep(self) -> None:
        target = self._repository.path / "objects" / "pack"
        target.mkdir(exist_ok=True)
        # The index comes last, because it makes the pack visible to git.
        for path in sorted((self._place / "pack").iterdir(), key=lambda path: path.suffix == ".idx"):
            path.replace(target / path.name)
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
