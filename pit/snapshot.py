"""A project's exact state as something to send: a tree, what it comes from, and the objects of both.

All that is not ignored belongs to it: staged, modified, untracked, binary, in submodules. The user's
repository stays as it is, for git writes into a scratch directory.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pit.counts import counted
from pit.folder import Folder, Foreign, is_foreign
from pit.looking import Look
from pit.project import Base, Project, lost, secret_in
from pit.worktree import EMPTY_TREE, RAW_DIFF, Taken, is_named, take
from pit_protocol.submission import Demand, LargeFile, Offer, Snapshot

NAMED_FILES = 5
MIB = 1024 * 1024
_EXACT = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")


class Shot:
    """The work tree at one moment."""

    def __init__(
        self, project: Project, place: Path, include: Sequence[str] = (), *, with_remote: bool = True
    ) -> None:
        self.notes: list[str] = []  # what the user should know of it
        look = None if isinstance(project, Folder) else Look(project)
        if is_foreign(project):
            self.notes.append("this repository names objects by sha256: its files are sent without history")
            project = Foreign(project)
        self.project = project
        self._place, self._include = place, tuple(include)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(project.find_base) if with_remote and project.head else None
            self.taken = take(project, place / "taken", include=self._include, look=look)
            self.base = self._usable(asked.result() if asked else None)
        self.commit, self.committed = project.head, self.taken.committed
        self.missing: set[str] = set()  # objects that are needed and not here
        self.history = project.history(self.base)
        self.notes += list(_warnings(self.taken, self._include))

    @property
    def tree(self) -> str:
        return self.taken.tree

    @property
    def large(self) -> tuple[LargeFile, ...]:
        """Content that stays elsewhere, if the head can get it there."""
        return tuple({pointer.content for pointer in self.taken.pointers})

    def late_notes(self) -> list[str]:
        """What is worth knowing, but not worth to wait for."""
        odd = self.taken.odd()
        return [f"left out, for they are neither files, directories nor links: {_named(odd)}"] if odd else []

    def has(self, path: str) -> bool:
        return bool(self.taken.scratch.run("ls-tree", self.tree, "--", path))

    def embed(self, oids: frozenset[str]) -> None:
        """Take these large files along with their content."""
        self.taken = take(self.project, self._place / "embedding", embed=oids, include=self._include)

    def offer(self) -> Offer:
        if self.base is None:
            return Offer(self.tree, self.history)
        return Offer(self.tree, self.history, self.base.remote.url, self.base.commit)

    def objects(self, demand: Demand) -> dict[str, str]:
        """What the head lacks at most, each with a path that it is found at."""
        here = [self.tree] if demand.complete else []
        here += [self._base_tree(demand.base)] if demand.base else []
        # HEAD as git has it, too: it may be the base of what comes next.
        trees = (self.tree, self.committed, self.commit[1] if self.commit else None)
        wanted = list(dict.fromkeys(tree for tree in trees if tree))
        listed = ("rev-list", "--objects", "--missing=print")
        printed = self.taken.scratch.run(*listed, *wanted, *(f"^{tree}" for tree in here))
        lines = [line.partition(b" ") for line in printed.split(b"\n") if line]
        found = {name.decode().lstrip("?"): os.fsdecode(path) for name, _, path in lines}
        self.missing = {name[1:].decode() for name, _, _ in lines if name.startswith(b"?")}
        if self.commit and self.commit[0] != demand.base:
            found[self.commit[0]] = ""
        return found

    def drop_history(self) -> None:
        """Leave out the commit, of which not all is here; raises a Problem if that is no partial clone."""
        if not self.project.is_partial or self.commit is None:
            raise lost(next(iter(self.missing)))
        self.notes.append(
            "this is a partial clone, and not all of its commit is here: only the files are sent"
        )
        self.commit = self.committed = None

    def pack(self, objects: Iterable[tuple[str, str]]) -> Path:
        """A file with these objects; always the same, so that a broken transfer can be taken up again."""
        listing, target = self._place / "objects.txt", self._place / "objects.pack"
        with listing.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{name} {path}\n" for name, path in objects)
        self.taken.scratch.pack(listing, target)
        return target

    def snapshot(self, demand: Demand, pack: Path | None) -> Snapshot:
        project = self.project
        base = None if demand.why else self.base  # a remote that is of no use to the head is none
        return Snapshot(
            tree=self.tree,
            commit=self.commit[0] if self.commit else None,
            committed=self.committed,
            base=demand.base,
            remote=base.remote.url if base else None,
            remote_name=base.remote.name if base else None,
            branch=project.branch,
            diff_lines=self.count_lines(),
            pack=digest(pack) if pack else None,
        )

    def differences(self) -> list[tuple[str, bytes]]:
        """Each file that is not as committed: git's letter, or `?` for an untracked one."""
        untracked = {change.path for change in self.taken.changes if change.is_untracked}
        words = self.taken.scratch.run(*RAW_DIFF, self.committed or EMPTY_TREE, self.tree).split(b"\0")
        pairs = zip(words[::2], words[1::2], strict=False)
        return [("?" if path in untracked else facts[-1:].decode(), path) for facts, path in pairs]

    def count_lines(self) -> int:
        """Lines that were added or deleted, but not committed."""
        if self.committed is None or self.committed == self.tree:
            return 0
        # A partial clone need not have what is not checked out, to count its lines.
        counted = ("--numstat", "--diff-filter=d") if self.project.is_partial else ("--numstat",)
        numbers = self.taken.scratch.run("diff-tree", *_EXACT, *counted, self.committed, self.tree)
        # A binary file has `-` in both columns.
        pairs = (line.split(b"\t", 2)[:2] for line in numbers.splitlines())
        return sum(int(number) for pair in pairs for number in pair if number.isdigit())

    def _base_tree(self, commit: str) -> str:
        return self.project.line("rev-parse", "--verify", f"{commit}^{{tree}}")

    def _usable(self, base: Base | None) -> Base | None:
        if base is None or not (why := secret_in(base.remote)):
            return base
        self.notes.append(f"{why}; the code is sent along instead")
        return None


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _warnings(taken: Taken, include: Sequence[str]) -> Iterator[str]:
    if taken.unmerged:
        yield f"conflicts are not resolved in {_named(taken.unmerged)}; they go along with their marks"
    if taken.left_out:
        yield f"left out, for they look like secrets: {_named(taken.left_out)}; `--include NAME` sends them"
    untracked = [change.path for change in taken.changes if change.is_untracked]
    for wanted in include:
        # A submodule's files may be named as they are called in it.
        names = (wanted, f"*/{wanted}")
        if not any(is_named(os.fsdecode(path), name) for path in untracked for name in names):
            yield f"--include {wanted} fits no untracked file: it is not there, or git ignores or has it"
    if untracked:
        size = sum(size_of(taken, path) for path in untracked)
        verb = "goes" if len(untracked) == 1 else "go"
        how_much = f"{size / MIB:,.1f} MiB" if size >= MIB else counted(size, "byte")
        yield f"{counted(len(untracked), 'untracked file')} {verb} along ({how_much})"


def size_of(taken: Taken, path: bytes) -> int:
    try:
        found = os.lstat(os.path.join(os.fsencode(taken.scratch.project.top), path))  # noqa: PTH118
    except OSError:  # deleted, also meanwhile
        return 0
    return 0 if stat.S_ISDIR(found.st_mode) else found.st_size


def _named(paths: Sequence[bytes]) -> str:
    names = [os.fsdecode(path) for path in sorted(paths)[:NAMED_FILES]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")
