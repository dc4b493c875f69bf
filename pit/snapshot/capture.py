"""A snapshot of the work tree: its tree, the commit it is based on, and the objects to send.

It has every file that is not ignored: staged, modified, untracked, binary, in submodules. The user's
repository is not changed, because git writes into a scratch directory.
"""

import hashlib
import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from pit.snapshot.git_command import missing_object
from pit.snapshot.git_status import PendingStatus
from pit.snapshot.plain_directory import PlainDirectory, Sha256WorkTree, uses_sha256
from pit.snapshot.repository import Base, Repository, secret_in
from pit.snapshot.secret_names import is_included
from pit.snapshot.worktree import EMPTY_TREE, EVERYTHING, RAW_DIFF, CapturedTree, capture_tree
from pit.ui.plural import plural
from pit_protocol.answers.snapshots import OfferAnswer
from pit_protocol.messages.submission import LfsFile, Offer, Snapshot

MAX_NAMED = 5  # files in a note
MIB = 1024 * 1024
_EXACT = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")


class WorktreeSnapshot:
    """The work tree at one moment."""

    def __init__(
        self, repo: Repository, directory: Path, include: Sequence[str] = (), *, with_remote: bool = True
    ) -> None:
        self.notes: list[str] = []  # for the user
        pending = None if isinstance(repo, PlainDirectory) else PendingStatus(repo)
        if uses_sha256(repo):
            self.notes.append("this repository uses SHA-256 object names: its files are sent without history")
            repo = Sha256WorkTree(repo)
        self.repo = repo
        self._directory, self._include = directory, tuple(include)
        with ThreadPoolExecutor(1) as pool:
            base = pool.submit(repo.find_base) if with_remote and repo.head else None
            self.captured = capture_tree(repo, directory / "captured", include=self._include, pending=pending)
            if self.captured.pointers and self.captured.bare_pointers:
                # The head would download all of them, so the content on disk is sent from here.
                self.embed(EVERYTHING)
            self.base = self._usable(base.result() if base else None)
        self.commit, self.committed = repo.head, self.captured.committed
        self._counted: tuple[str, int] | None = None  # a tree and its changed lines
        self.missing: set[str] = set()  # needed objects that this repository does not have
        self.notes += list(_notes(self.captured, self._include))

    @property
    def tree(self) -> str:
        return self.captured.tree

    @cached_property
    def history(self) -> tuple[str, ...]:
        """Commits that the head may have."""
        return self.repo.history(self.base)

    @property
    def lfs_files(self) -> tuple[LfsFile, ...]:
        """LFS files that are sent as pointers, if the head can download their content."""
        return tuple({pointer.content for pointer in self.captured.pointers})

    def slow_notes(self) -> list[str]:
        """Notes for the user that take a while to find out."""
        special = self.captured.special_files()
        if not special:
            return []
        return [f"left out because they are not files, directories or links: {_names(special)}"]

    def has(self, path: str) -> bool:
        return bool(self.captured.scratch.run("ls-tree", self.tree, "--", path))

    def embed(self, oids: Container[str]) -> None:
        """Capture again, with the content of these LFS files."""
        directory = self._directory / "embedded"
        self.captured = capture_tree(self.repo, directory, embed=oids, include=self._include)
        self.committed = self.captured.committed

    def offer(self) -> Offer:
        if self.base is None:
            return Offer(self.tree, self.history)
        return Offer(self.tree, self.history, self.base.remote.url, self.base.commit)

    def objects(self, answer: OfferAnswer) -> dict[str, str]:
        """The objects that the head may lack, each with a path where it is used."""
        known = [self.tree] if answer.complete else []
        known += [self._base_tree(answer.base)] if answer.base else []
        # HEAD's own tree, too: it may be the base of the next snapshot.
        trees = (self.tree, self.committed, self.commit[1] if self.commit else None)
        wanted = list(dict.fromkeys(tree for tree in trees if tree))
        command = ("rev-list", "--objects", "--missing=print")
        printed = self.captured.scratch.run(*command, *wanted, *(f"^{tree}" for tree in known))
        lines = [line.partition(b" ") for line in printed.split(b"\n") if line]
        found = {name.decode().lstrip("?"): os.fsdecode(path) for name, _, path in lines}
        self.missing = {name[1:].decode() for name, _, _ in lines if name.startswith(b"?")}
        if self.commit and self.commit[0] != answer.base:
            found[self.commit[0]] = ""
        return found

    def drop_history(self) -> None:
        """Leave out the commit, which has missing objects; raise a Problem if this is no partial clone."""
        if not self.repo.is_partial or self.commit is None:
            raise missing_object(next(iter(self.missing)))
        self.notes.append(
            "this is a partial clone that is missing parts of its commit: only the files are sent"
        )
        self.commit = self.committed = None

    def pack(self, objects: Iterable[tuple[str, str]]) -> Path:
        """Write these objects to a pack; it is the same each time, so that an upload can be resumed."""
        listing, target = self._directory / "objects.txt", self._directory / "objects.pack"
        with listing.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{name} {path}\n" for name, path in objects)
        self.captured.scratch.pack(listing, target)
        return target

    def snapshot(self, answer: OfferAnswer, pack: Path | None) -> Snapshot:
        base = None if answer.why else self.base  # `why` says that the head cannot use the remote
        return Snapshot(
            tree=self.tree,
            commit=self.commit[0] if self.commit else None,
            committed=self.committed,
            base=answer.base,
            remote=base.remote.url if base else None,
            remote_name=base.remote.name if base else None,
            branch=self.repo.branch,
            diff_lines=self.count_lines(),
            pack=digest(pack) if pack else None,
            keeps_pointers=not self.captured.pointers,
        )

    def differences(self) -> list[tuple[str, bytes]]:
        """Each file that differs from HEAD: git's letter, or `?` for an untracked file."""
        untracked = {change.path for change in self.captured.changes if change.is_untracked}
        words = self.captured.scratch.run(*RAW_DIFF, self.committed or EMPTY_TREE, self.tree).split(b"\0")
        pairs = zip(words[::2], words[1::2], strict=False)
        return [("?" if path in untracked else facts[-1:].decode(), path) for facts, path in pairs]

    def count_lines(self) -> int:
        """Uncommitted lines, added and deleted."""
        before = EMPTY_TREE if self._is_unborn else self.committed
        if before is None or before == self.tree:
            return 0
        if self._counted and self._counted[0] == self.tree:
            return self._counted[1]
        # A partial clone may lack the objects of files that are not checked out.
        options = ("--numstat", "--diff-filter=d") if self.repo.is_partial else ("--numstat",)
        numbers = self.captured.scratch.run("diff-tree", *_EXACT, *options, before, self.tree)
        # A binary file has `-` in both columns.
        pairs = (line.split(b"\t", 2)[:2] for line in numbers.splitlines())
        count = sum(int(number) for pair in pairs for number in pair if number.isdigit())
        self._counted = (self.tree, count)
        return count

    @property
    def _is_unborn(self) -> bool:
        """Whether this is a repository before its first commit."""
        return self.repo.head is None and not isinstance(self.repo, PlainDirectory)

    def _base_tree(self, commit: str) -> str:
        return self.repo.line("rev-parse", "--verify", f"{commit}^{{tree}}")

    def _usable(self, base: Base | None) -> Base | None:
        if base is None or not (why := secret_in(base.remote)):
            return base
        self.notes.append(f"{why}; the code is sent from here instead")
        return None


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _notes(captured: CapturedTree, include: Sequence[str]) -> Iterator[str]:
    if captured.unmerged:
        yield f"unresolved conflicts in {_names(captured.unmerged)}; sent with their conflict markers"
    if captured.empty_submodules:
        names = _names(captured.empty_submodules)
        yield f"submodules not checked out arrive empty: {names}; `git submodule update --init` gets them"
    if captured.bare_pointers:
        count, names = len(captured.bare_pointers), _names(captured.bare_pointers)
        files = (
            "1 Git LFS file is a pointer here, and arrives as one"
            if count == 1
            else (f"{count:,} Git LFS files are pointers here, and arrive as pointers")
        )
        yield f"{files}: {names}; `git lfs pull` downloads the content"
    if captured.left_out:
        names = _names(captured.left_out)
        yield f"left out because they look like secrets: {names}; `--include NAME` sends them"
    untracked = [change.path for change in captured.changes if change.is_untracked]
    for wanted in include:
        # A file in a submodule may be named by its path in the submodule.
        patterns = (wanted, f"*/{wanted}")
        if not any(is_included(os.fsdecode(path), pattern) for path in untracked for pattern in patterns):
            yield f"--include {wanted} matches no untracked file: it does not exist, is ignored or is tracked"
    if untracked:
        size = sum(size_of(captured, path) for path in untracked)
        total = f"{size / MIB:,.1f} MiB" if size >= MIB else plural(size, "byte")
        yield f"including {plural(len(untracked), 'untracked file')} ({total})"


def size_of(captured: CapturedTree, path: bytes) -> int:
    try:
        found = os.lstat(os.path.join(os.fsencode(captured.scratch.repo.top), path))  # noqa: PTH118
    except OSError:  # deleted
        return 0
    return 0 if stat.S_ISDIR(found.st_mode) else found.st_size


def _names(paths: Sequence[bytes]) -> str:
    names = [os.fsdecode(path) for path in sorted(paths)[:MAX_NAMED]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")
