"""Write a work tree as git objects: a tree with each file byte for byte as it is on disk."""

import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pit.snapshot.conversions import Adjustments
from pit.snapshot.git_status import PendingStatus, find_special_files, tracked_directories, tracked_paths
from pit.snapshot.ignore import patterns_below
from pit.snapshot.lfs import Pointer, find_pointers_on_disk
from pit.snapshot.plain_directory import PlainDirectory, Sha256WorkTree, uses_sha256
from pit.snapshot.read_errors import unreadable
from pit.snapshot.repository import Repository
from pit.snapshot.scratch_repo import SUBMODULE, Entry, ScratchRepo
from pit.snapshot.secret_names import looks_secret
from pit.snapshot.staging import Staged, stage

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
RAW_DIFF = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")


class _Everything(Container[str]):
    def __contains__(self, _: object) -> bool:
        return True


EVERYTHING = _Everything()


@dataclass(frozen=True)
class Change:
    """A file that differs from HEAD."""

    letter: str  # A, M, D or T, as in git's raw diff
    path: bytes
    mode: bytes
    is_untracked: bool


@dataclass(frozen=True)
class CapturedTree:
    """A work tree as objects in a scratch repository."""

    scratch: ScratchRepo
    tree: str
    committed: str | None  # the same tree without uncommitted changes; None without a commit
    changes: tuple[Change, ...]
    pointers: tuple[Pointer, ...]  # in the tree in place of LFS files whose content is on disk
    bare_pointers: tuple[bytes, ...]  # files that are LFS pointers on disk
    left_out: tuple[bytes, ...]  # untracked files that look like secrets
    unmerged: tuple[bytes, ...]  # files with conflicts, captured with their conflict markers
    tags: bytes  # the tracked files, as `ls-files -v` prints them
    nested: dict[bytes, "CapturedTree"]  # submodules and nested repositories, by path
    empty_submodules: tuple[bytes, ...] = ()  # that are not checked out

    def special_files(self) -> list[bytes]:
        """Pipes, sockets and devices beside captured files; they are left out."""
        added = {change.path.rpartition(b"/")[0] for change in self.changes if change.is_untracked}
        top = os.fsencode(self.scratch.repo.top)
        found = find_special_files(top, {*tracked_directories(self.tags), *added})
        tracked = tracked_paths(self.tags) if found else set()
        ignored = self.scratch.list_ignored([path for path in found if path not in tracked])
        below = [path + b"/" + name for path, sub in self.nested.items() for name in sub.special_files()]
        return sorted({*(set(found) - ignored), *below})


def capture_tree(
    repo: Repository,
    directory: Path,
    *,
    embed: Container[str] = (),
    include: Sequence[str] = (),
    ignored: bytes = b"",
    pending: PendingStatus | None = None,
) -> CapturedTree:
    """Write the work tree's objects into `directory`, with the content of the LFS files in `embed`.

    `ignored` are the ignore patterns of the repositories around this one.
    """
    scratch = ScratchRepo(repo, directory, ignored)
    staged = stage(repo, scratch, embed, pending)
    before = repo.head[1] if repo.head else EMPTY_TREE
    tree = before if staged.is_clean else scratch.line("write-tree")
    changes = _changes(scratch, before, tree, staged.tags) if tree != before else []
    left_out = [change.path for change in changes if _is_secret(change, include)]
    scratch.remove_entries(left_out)
    empty: list[bytes] = []
    nested = _flatten(scratch, staged, changes, include, empty)
    committed = _committed_tree(repo, scratch, staged.adjustments, nested) if repo.head else None
    return CapturedTree(
        scratch,
        scratch.line("write-tree") if left_out or nested else tree,
        committed,
        tuple(change for change in changes if change.path not in left_out and change.path not in nested)
        + tuple(_below(path, change) for path, sub in nested.items() for change in sub.changes),
        staged.adjustments.lfs.pointers,
        (*_bare_pointers(repo, staged, changes), *_all_below(nested, "bare_pointers")),
        (*left_out, *_all_below(nested, "left_out")),
        _unmerged(staged.tags),
        staged.tags,
        nested,
        (*empty, *_all_below(nested, "empty_submodules")),
    )


def _changes(scratch: ScratchRepo, before: str, tree: str, tags: bytes) -> list[Change]:
    tracked = tracked_paths(tags)
    words = scratch.run(*RAW_DIFF, before, tree).split(b"\0")
    changes = []
    for facts, path in zip(words[::2], words[1::2], strict=False):
        _, mode, _, _, letter = facts.split(b" ")
        changes.append(Change(letter.decode(), path, mode, letter == b"A" and path not in tracked))
    return changes


def _bare_pointers(repo: Repository, staged: Staged, changes: Sequence[Change]) -> tuple[bytes, ...]:
    """The files that are LFS pointers on disk; new and changed ones only where it matters."""
    found = set(staged.adjustments.lfs.bare)
    if staged.adjustments.lfs.pointers or (isinstance(repo, PlainDirectory) and _uses_lfs(repo)):
        found |= find_pointers_on_disk(repo.top, [change.path for change in changes])
    return tuple(sorted(found))


def _uses_lfs(repo: Repository) -> bool:
    try:
        return b"filter=lfs" in (repo.top / ".gitattributes").read_bytes()
    except OSError:  # there is none
        return False


def _all_below(nested: dict[bytes, CapturedTree], name: str) -> Iterator[bytes]:
    """The paths that nested trees have under this name, from the outer tree."""
    return (path + b"/" + below for path, sub in nested.items() for below in getattr(sub, name))


def _is_secret(change: Change, include: Sequence[str]) -> bool:
    return change.is_untracked and looks_secret(os.fsdecode(change.path), include)


def _flatten(
    scratch: ScratchRepo,
    staged: Staged,
    changes: Sequence[Change],
    include: Sequence[str],
    empty: list[bytes],
) -> dict[bytes, CapturedTree]:
    """Replace the commits of submodules and nested repositories in the index by their files.

    A submodule that is not checked out stays an empty directory, and is added to `empty`.
    """
    has_links = staged.may_have_submodules or any(change.mode == SUBMODULE for change in changes)
    paths = [entry.path for entry in scratch.entries() if entry.mode == SUBMODULE] if has_links else []
    nested: dict[bytes, CapturedTree] = {}
    for number, path in enumerate((*paths, *staged.nested)):
        top = Path(os.fsdecode(os.path.join(os.fsencode(scratch.repo.top), path)))  # noqa: PTH118
        if not _has_files(top):
            empty.append(path)
            continue
        directory = scratch.directory / f"nested-{number}"
        ignored = patterns_below(scratch.ignored, path)
        prefix = f"{os.fsdecode(path)}/"
        names = (*include, *(name.removeprefix(prefix) for name in include if name.startswith(prefix)))
        # The outer repository's remote does not have the nested one's LFS files.
        captured = capture_tree(_open(top), directory, embed=EVERYTHING, include=names, ignored=ignored)
        nested[path] = captured
        scratch.add_alternate(captured.scratch.objects)
        scratch.remove_entries([path])
        scratch.run("read-tree", f"--prefix={prefix}", captured.tree)
    return nested


def _open(top: Path) -> Repository:
    if not (top / ".git").exists():
        return PlainDirectory(top)
    repo = Repository(top)
    return Sha256WorkTree(repo) if uses_sha256(repo) else repo


def _has_files(top: Path) -> bool:
    try:
        return not top.is_symlink() and any(top.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        raise unreadable(str(top)) from None


def _unmerged(tags: bytes) -> tuple[bytes, ...]:
    return tuple({line[2:] for line in tags.split(b"\0") if line.startswith(b"M ")}) if b"M " in tags else ()


def _committed_tree(
    repo: Repository, scratch: ScratchRepo, adjustments: Adjustments, nested: dict[bytes, CapturedTree]
) -> str:
    """HEAD's tree in the form of the captured one: converted files as on disk, submodules as files."""
    tree = repo.head[1] if repo.head else EMPTY_TREE
    converted = {entry.path: entry for entry in adjustments.converted}
    if not converted and not nested:
        return tree
    raw = {entry.path: entry for entry in scratch.entries() if entry.path in converted}
    with scratch.separate_index() as index:
        index.run("read-tree", tree)
        committed = {entry.path: entry for entry in index.entries()}
        index.add_entries(
            [
                raw[path].line
                for path, entry in converted.items()
                if path in raw and _is_same_object(entry, committed.get(path))
            ]
        )
        for path, sub in nested.items():
            link = committed.get(path)
            if link is None or link.mode != SUBMODULE:
                continue
            if found := _committed_below(sub, link.blob.decode()):
                index.remove_entries([path])
                index.run("read-tree", f"--prefix={os.fsdecode(path)}/", found)
        # A partial clone may lack objects that are not checked out; whether that matters is checked later.
        return index.line("write-tree", "--missing-ok")


def _is_same_object(indexed: Entry, committed: Entry | None) -> bool:
    """Whether index and HEAD have the same object, so only the form on disk differs."""
    return committed is not None and indexed.blob == committed.blob


def _committed_below(sub: CapturedTree, commit: str) -> str | None:
    """The tree of the commit that the outer repository has recorded for the nested one."""
    head = sub.scratch.repo.head
    if head and head[0] == commit:
        return sub.committed
    return sub.scratch.repo.get_line("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")


def _below(path: bytes, change: Change) -> Change:
    return replace(change, path=path + b"/" + change.path)
