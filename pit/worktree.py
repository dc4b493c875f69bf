"""From a work tree to a tree object that has each file as it lies on disk."""

import fnmatch
import os
from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pit.exactness import Adjusted, adjust, has_attributes, is_plain
from pit.large import Pointer
from pit.project import Folder, Project
from pit.scratch import SUBMODULE, Entry, Scratch, parse_entries
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


def take(project: Project, place: Path, *, embed: Container[str] = (), include: Sequence[str] = ()) -> Taken:
    """Write the work tree's objects into `place`; large files in `embed` with their content."""
    scratch = Scratch(project, place)
    listing, adjusted, nested = _add_all(project, scratch, embed)
    before = project.head[1] if project.head else EMPTY_TREE
    tree = scratch.line("write-tree")
    changes = _changes(scratch, before, tree, listing) if tree != before else []
    left_out = [change.path for change in changes if _is_secret(change, include)]
    scratch.forget(left_out)
    inner = _flatten(scratch, listing, changes, nested, include)
    committed = _committed(project, scratch, adjusted, inner) if project.head else None
    return Taken(
        scratch,
        scratch.line("write-tree") if left_out or inner else tree,
        committed,
        tuple(change for change in changes if change.path not in left_out and change.path not in inner)
        + tuple(_below(path, change) for path, sub in inner.items() for change in sub.changes),
        adjusted.pointers,
        (*left_out, *(path + b"/" + name for path, sub in inner.items() for name in sub.left_out)),
        tuple({entry.path for entry in parse_entries(listing) if entry.tag == b"M"})
        if b"\0M " in b"\0" + listing
        else (),
    )


def _add_all(
    project: Project, scratch: Scratch, embed: Container[str]
) -> tuple[bytes, Adjusted, tuple[bytes, ...]]:
    """Bring the scratch index up to the work tree; what was in it, and repositories inside without commit."""
    if isinstance(project, Folder):
        return b"", Adjusted(), _add(scratch)
    listed = ("ls-files", "-s", "-v", "-z")
    if has_attributes(project):
        listing = project.run(*listed)
    else:
        # Both at once, for mostly the index is good as it is.
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(project.run, *listed)
            nested = _add(scratch)
            listing = asked.result()
        if is_plain(project, listing):
            return listing, Adjusted(), nested
        scratch.begin_anew()
    adjusted = adjust(project, scratch, listing, embed)
    return listing, adjusted, _add(scratch)


def _add(scratch: Scratch) -> tuple[bytes, ...]:
    try:
        scratch.run("add", "-A", "--", ".", warn=_refuse_unreadable)
    except Problem as problem:
        if "does not have a commit checked out" not in problem.message + problem.hint:
            raise
        # A repository without commits inside of this one is nothing to git.
        others = scratch.run("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
        nested = tuple(name[:-1] for name in others if name.endswith(b"/"))
        scratch.ignore(nested)
        scratch.run("add", "-A", "--", ".", warn=_refuse_unreadable)
        return nested
    return ()


def _refuse_unreadable(said: str) -> None:
    """Raise a Problem for a directory that git passed over: what it holds would silently be left out."""
    found = next((line for line in said.splitlines() if "could not open directory" in line), "")
    if found:
        name = found.partition("'")[2].rpartition("'")[0]
        raise Problem(
            "unreadable", f"{name} cannot be read", "`chmod` it, or name it in .gitignore or .pitignore"
        )


def _changes(scratch: Scratch, before: str, tree: str, listing: bytes) -> list[Change]:
    words = scratch.run(*RAW_DIFF, before, tree).split(b"\0")
    changes = []
    for facts, path in zip(words[::2], words[1::2], strict=False):
        _, mode, _, _, letter = facts.split(b" ")
        known = b"\t" + path + b"\0" in listing
        changes.append(Change(letter.decode(), path, mode, not known and letter == b"A"))
    return changes


def _is_secret(change: Change, include: Sequence[str]) -> bool:
    if not change.is_untracked:
        return False
    path = os.fsdecode(change.path)
    name = path.rpartition("/")[2]
    if any(fnmatch.fnmatchcase(path, wanted) or wanted == name for wanted in include):
        return False
    secret = any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in SECRET_NAMES)
    return secret and name.lower() not in HARMLESS_NAMES


def _flatten(
    scratch: Scratch,
    listing: bytes,
    changes: Sequence[Change],
    nested: Sequence[bytes],
    include: Sequence[str],
) -> dict[bytes, Taken]:
    """Put the files of submodules and nested repositories into the index, in place of their commits."""
    has_links = b" 160000 " in listing or any(change.mode == SUBMODULE for change in changes)
    paths = [entry.path for entry in scratch.entries() if entry.mode == SUBMODULE] if has_links else []
    inner: dict[bytes, Taken] = {}
    for number, path in enumerate((*paths, *nested)):
        top = Path(os.fsdecode(os.path.join(os.fsencode(scratch.project.top), path)))  # noqa: PTH118
        if top.is_symlink() or not top.is_dir() or not any(top.iterdir()):
            continue  # not checked out: an empty directory, as a commit without files is
        project = Project(top) if (top / ".git").exists() else Folder(top)
        place = scratch.directory / f"inner-{number}"
        # The outer project's remote knows nothing of the inner one's large files.
        inner[path] = take(project, place, embed=_All(), include=include)
        scratch.see(inner[path].scratch.objects)
        scratch.forget([path])
        scratch.run("read-tree", f"--prefix={os.fsdecode(path)}/", inner[path].tree)
    return inner


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
        return index.line("write-tree")


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
