"""From a work tree to a tree object that has each file as it lies on disk."""

import fnmatch
import os
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pit.exactness import Adjusted, adjust, has_attributes, is_plain
from pit.folder import Folder, Foreign, is_foreign
from pit.ignoring import patterns_below
from pit.large import Pointer
from pit.looking import (
    LISTED,
    Look,
    Status,
    find_odd,
    folders,
    has_attributes_below,
    is_odd,
    may_have_submodules,
)
from pit.project import Project
from pit.scratch import SUBMODULE, Entry, Scratch
from pit.trouble import Unsteady, explain, refuse_unreadable, unreadable
from pit_protocol.problem import Problem

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
RAW_DIFF = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
# Names of untracked files that hold a secret more often than not.
SECRET_NAMES = (
    *(".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.ppk"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", ".pgpass", ".pypirc", ".git-credentials"),
    *("credentials", "credentials.json", ".htpasswd", ".pituser.txt", "*.ovpn"),
    *(".npmrc", "kubeconfig", "secrets.yaml", "secrets.yml", "secrets.json", "service-account*.json"),
)
HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist")
TRIES = 5  # of a work tree in which something changes
MOST_NAMED = 100  # paths for git to look at; with more it is faster to look at all


class _All(Container[str]):
    def __contains__(self, _: object) -> bool:
        return True


@dataclass(frozen=True)
class Change:
    """A file that is not as it was committed."""

    letter: str  # A, M, D or T, as git has it
    path: bytes
    mode: bytes
    is_untracked: bool


@dataclass(frozen=True)
class Taken:
    """A work tree as objects in a scratch directory."""

    scratch: Scratch
    tree: str
    committed: str | None  # the same without uncommitted changes; None: there is no commit
    changes: tuple[Change, ...]
    pointers: tuple[Pointer, ...]
    left_out: tuple[bytes, ...]  # untracked files that look like secrets
    unmerged: tuple[bytes, ...]  # files with conflicts, taken with their marks
    tags: bytes  # what git tracks, as of `ls-files -v`
    inner: dict[bytes, "Taken"]  # repositories inside, by their paths

    def odd(self) -> list[bytes]:
        """Neither files, directories nor links, and so left out; where something else is taken."""
        new = {change.path.rpartition(b"/")[0] for change in self.changes if change.is_untracked}
        found = find_odd(os.fsencode(self.scratch.project.top), {*folders(self.tags), *new})
        tracked = _tracked(self.tags) if found else set()
        ignored = self.scratch.list_ignored([path for path in found if path not in tracked])
        inside = [path + b"/" + name for path, sub in self.inner.items() for name in sub.odd()]
        return sorted({*(set(found) - ignored), *inside})


@dataclass
class _Added:
    """What is in the scratch index, once it is as the work tree."""

    tags: bytes = b""  # what git tracks, as of `ls-files -v`
    adjusted: Adjusted = field(default_factory=Adjusted)
    nested: tuple[bytes, ...] = ()  # repositories inside that have no commit
    is_clean: bool = False  # as in HEAD: there is no need for a scratch index
    has_links: bool = False  # there may be submodules


def take(
    project: Project,
    place: Path,
    *,
    embed: Container[str] = (),
    include: Sequence[str] = (),
    ignored: bytes = b"",
    look: Look | None = None,
) -> Taken:
    """Write the work tree's objects into `place`; large files in `embed` with their content.

    `ignored` are patterns of projects around this one.
    """
    scratch = Scratch(project, place, ignored)
    added = _add_all(project, scratch, embed, look)
    before = project.head[1] if project.head else EMPTY_TREE
    tree = before if added.is_clean else scratch.line("write-tree")
    changes = _changes(scratch, before, tree, added.tags) if tree != before else []
    left_out = [change.path for change in changes if _is_secret(change, include)]
    scratch.forget(left_out)
    inner = _flatten(scratch, added, changes, include)
    committed = _committed(project, scratch, added.adjusted, inner) if project.head else None
    return Taken(
        scratch,
        scratch.line("write-tree") if left_out or inner else tree,
        committed,
        tuple(change for change in changes if change.path not in left_out and change.path not in inner)
        + tuple(_below(path, change) for path, sub in inner.items() for change in sub.changes),
        added.adjusted.pointers,
        (*left_out, *(path + b"/" + name for path, sub in inner.items() for name in sub.left_out)),
        _unmerged(added.tags),
        added.tags,
        inner,
    )


def _add_all(project: Project, scratch: Scratch, embed: Container[str], look: Look | None) -> _Added:
    """Bring the scratch index up to the work tree."""
    for tried in range(TRIES):
        try:
            if isinstance(project, Folder):
                return _Added(project.tags, nested=_add_folder(project, scratch))
            return _add_known(project, scratch, embed, look or Look(project), by_name=tried == 0)
        except Unsteady:
            if tried == TRIES - 1:
                raise
            look = None
    raise AssertionError("unreachable")


def _add_known(
    project: Project, scratch: Scratch, embed: Container[str], look: Look, *, by_name: bool
) -> _Added:
    """By what git says itself, where that can be trusted; else each file is looked at."""
    tags, has_links = look.tags, may_have_submodules(project)
    trusted = is_plain(project, tags) and not has_attributes(project) and b"!" not in scratch.ignored
    status = look.status if trusted and not has_attributes_below(project, tags) else None
    if status and status.is_clean and _is_of_head(status, project) and not has_links:
        return _Added(tags, is_clean=True)
    added = _Added(tags, has_links=has_links)
    scratch.begin()
    if status is None:
        added.adjusted = adjust(project, scratch, project.run(*LISTED), embed)
    odd = _odd_in_place_of_files(project, tags, status)
    scratch.forget(list(odd))
    paths: Sequence[bytes] = (b".",)
    # By name only what rests, and is not ignored: git refuses to add what is.
    if by_name and status and len(status.differing) <= MOST_NAMED and not scratch.ignored:
        paths = [path for path in status.differing if path not in odd]
    added.nested = _add(scratch, paths)
    return added


def _odd_in_place_of_files(project: Project, tags: bytes, status: Status | None) -> set[bytes]:
    """Tracked files that are no file, directory or link any more; git would stumble over them."""
    top = os.fsencode(project.top)
    if status is None:
        return set(find_odd(top, folders(tags))) & _tracked(tags)
    return {path for path in status.differing if is_odd(os.path.join(top, path))}  # noqa: PTH118


def _is_of_head(status: Status, project: Project) -> bool:
    """Whether nobody committed between two questions; where there is no commit, the tree is empty."""
    return status.commit == (project.head[0].encode() if project.head else b"(initial)")


def _add_folder(project: Folder, scratch: Scratch) -> tuple[bytes, ...]:
    nested = _add(scratch)
    top = os.fsencode(project.top)
    _add(scratch, [name for name in project.forced if os.path.lexists(os.path.join(top, name))], "--force")  # noqa: PTH118
    return nested


def _add(scratch: Scratch, paths: Sequence[bytes] = (b".",), *options: str) -> tuple[bytes, ...]:
    """Add what differs; returns repositories inside that git does not add."""
    if not paths:
        return ()
    command = ("--literal-pathspecs", "add", "-A", *options, "--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        scratch.run(*command, stdin=b"\0".join(paths), warn=refuse_unreadable)
    except Problem as problem:
        if "does not have a commit checked out" not in problem.message + problem.hint:
            raise explain(problem) from problem
    else:
        return ()
    # A repository without commits inside of this one is nothing to git.
    others = scratch.run("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    nested = tuple(name[:-1] for name in others if name.endswith(b"/"))
    scratch.ignore(nested)
    return (*nested, *_add(scratch))


def _changes(scratch: Scratch, before: str, tree: str, tags: bytes) -> list[Change]:
    tracked = _tracked(tags)
    words = scratch.run(*RAW_DIFF, before, tree).split(b"\0")
    changes = []
    for facts, path in zip(words[::2], words[1::2], strict=False):
        _, mode, _, _, letter = facts.split(b" ")
        changes.append(Change(letter.decode(), path, mode, letter == b"A" and path not in tracked))
    return changes


def is_named(path: str, wanted: str) -> bool:
    """Whether `--include` means this file, by its name or by a pattern for its path."""
    return fnmatch.fnmatchcase(path, wanted) or wanted == path.rpartition("/")[2]


def _is_secret(change: Change, include: Sequence[str]) -> bool:
    if not change.is_untracked:
        return False
    path = os.fsdecode(change.path)
    name = path.rpartition("/")[2]
    if any(is_named(path, wanted) for wanted in include):
        return False
    secret = any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in SECRET_NAMES)
    return secret and name.lower() not in HARMLESS_NAMES


def _flatten(
    scratch: Scratch, added: _Added, changes: Sequence[Change], include: Sequence[str]
) -> dict[bytes, Taken]:
    """Put the files of submodules and nested repositories into the index, in place of their commits."""
    has_links = added.has_links or any(change.mode == SUBMODULE for change in changes)
    paths = [entry.path for entry in scratch.entries() if entry.mode == SUBMODULE] if has_links else []
    inner: dict[bytes, Taken] = {}
    for number, path in enumerate((*paths, *added.nested)):
        top = Path(os.fsdecode(os.path.join(os.fsencode(scratch.project.top), path)))  # noqa: PTH118
        if not _has_files(top):
            continue  # not checked out: an empty directory, as a commit without files is
        project = _project(top)
        place = scratch.directory / f"inner-{number}"
        ignored = patterns_below(scratch.ignored, path)
        # The outer project's remote knows nothing of the inner one's large files.
        above = f"{os.fsdecode(path)}/"
        named = (*include, *(name.removeprefix(above) for name in include if name.startswith(above)))
        inner[path] = take(project, place, embed=_All(), include=named, ignored=ignored)
        scratch.see(inner[path].scratch.objects)
        scratch.forget([path])
        scratch.run("read-tree", f"--prefix={os.fsdecode(path)}/", inner[path].tree)
    return inner


def _project(top: Path) -> Project:
    if not (top / ".git").exists():
        return Folder(top)
    project = Project(top)
    return Foreign(project) if is_foreign(project) else project


def _has_files(top: Path) -> bool:
    try:
        return not top.is_symlink() and any(top.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        raise unreadable(str(top)) from None


def _unmerged(tags: bytes) -> tuple[bytes, ...]:
    return tuple({line[2:] for line in tags.split(b"\0") if line.startswith(b"M ")}) if b"M " in tags else ()


def _tracked(tags: bytes) -> set[bytes]:
    return {line[2:] for line in tags.split(b"\0")}


def _committed(project: Project, scratch: Scratch, adjusted: Adjusted, inner: dict[bytes, Taken]) -> str:
    """The tree of HEAD in the form of the work tree's: raw where that is, submodules with their files."""
    tree = project.head[1] if project.head else EMPTY_TREE
    converted = {entry.path: entry for entry in adjusted.converted}
    if not converted and not inner:
        return tree
    raw = {entry.path: entry for entry in scratch.entries() if entry.path in converted}
    with scratch.other_index() as index:
        index.run("read-tree", tree)
        committed = {entry.path: entry for entry in index.entries()}
        index.enter(
            [
                raw[path].line
                for path, entry in converted.items()
                if _same(entry, committed.get(path), raw.get(path))
            ]
        )
        for path, sub in inner.items():
            link = committed.get(path)
            if link is None or link.mode != SUBMODULE:
                continue
            if found := _committed_inside(sub, link.blob.decode()):
                index.forget([path])
                index.run("read-tree", f"--prefix={os.fsdecode(path)}/", found)
        # In a partial clone, what is not checked out may be missing: whether that matters is seen later.
        return index.line("write-tree", "--missing-ok")


def _same(known: Entry, committed: Entry | None, raw: Entry | None) -> bool:
    """Whether the index and HEAD agree about a file, so that only its form on disk differs."""
    return raw is not None and committed is not None and known.blob == committed.blob


def _committed_inside(sub: Taken, commit: str) -> str | None:
    """The tree of the commit that the outer project has of the inner one."""
    head = sub.scratch.project.head
    if head and head[0] == commit:
        return sub.committed
    return sub.scratch.project.get_line("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")


def _below(path: bytes, change: Change) -> Change:
    return Change(change.letter, path + b"/" + change.path, change.mode, change.is_untracked)
