"""Git LFS: a pointer in the tree, the content in the work tree or on the remote's LFS server.

An unchanged LFS file is a pointer in the tree: the head downloads its content from the LFS server. A
changed one, or one that the head cannot download, is sent as an ordinary file. A file that is a pointer on
disk, because its content was never downloaded, arrives as a pointer.
"""

import hashlib
import os
import re
import stat
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from pit.snapshot.repository import Repository
from pit.snapshot.scratch_repo import Entry, ScratchRepo
from pit_protocol.messages.submission import LfsFile

POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
MAX_POINTER = 1024


@dataclass(frozen=True)
class Pointer:
    entry: Entry
    content: LfsFile


def list_pointers(repo: Repository, entries: list[Entry]) -> list[Pointer]:
    """The entries whose objects are LFS pointers."""
    if not entries:
        return []
    asked = b"\n".join(entry.blob for entry in entries) + b"\n"
    sizes = repo.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).split(b"\n")
    # A missing object, as in a partial clone, has no size.
    sized = [(entry, int(size)) for entry, size in zip(entries, sizes, strict=False) if size.isdigit()]
    small = [entry for entry, size in sized if size <= MAX_POINTER]
    texts = repo.run("cat-file", "--batch", stdin=b"".join(entry.blob + b"\n" for entry in small))
    pointers, position = [], 0
    for entry in small:
        header_end = texts.index(b"\n", position)
        size = int(texts[position:header_end].split()[2])
        text = texts[header_end + 1 : header_end + 1 + size]
        position = header_end + 1 + size + 1
        if found := POINTER.fullmatch(text):
            pointers.append(Pointer(entry, LfsFile(found[1].decode(), int(found[2]))))
    return pointers


@dataclass(frozen=True)
class Kept:
    """What became of the LFS files of a work tree."""

    pointers: tuple[Pointer, ...] = ()  # in the tree for files whose content is on disk
    bare: tuple[bytes, ...] = ()  # paths that are pointers on disk, too
    embedded: tuple[Entry, ...] = ()  # unchanged files whose content is in the tree


def keep_pointers(
    repo: Repository,
    scratch: ScratchRepo,
    pointers: list[Pointer],
    changed: set[bytes],
    embed: Container[str],
) -> Kept:
    """Keep the pointers of unchanged files in the scratch index; all others are read from disk."""
    kept, embedded, from_disk = [], [], []
    bare = find_pointers_on_disk(repo.top, [pointer.entry.path for pointer in pointers])
    for pointer in pointers:
        entry = pointer.entry
        if entry.path in bare or (entry.path in changed and not _has_content(repo, pointer)):
            from_disk.append(entry)
        elif pointer.content.oid in embed:
            embedded.append(entry)
        else:
            kept.append(pointer)
    scratch.add_entries([entry.line for entry in (*from_disk, *embedded)])
    _assume_unchanged(scratch, [pointer.entry.path for pointer in kept])
    return Kept(tuple(kept), tuple(sorted(bare)), tuple(embedded))


def find_pointers_on_disk(top: Path, paths: Iterable[bytes]) -> set[bytes]:
    """The files that are pointers on disk: nobody downloaded their content."""
    return {path for path in paths if _is_pointer(os.path.join(os.fsencode(top), path))}  # noqa: PTH118


def _is_pointer(path: bytes) -> bool:
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or not 0 < found.st_size <= MAX_POINTER:
            return False
        with open(path, "rb") as file:
            return POINTER.fullmatch(file.read(MAX_POINTER + 1)) is not None
    except OSError:  # deleted meanwhile, or unreadable: `git add` reports it
        return False


def _assume_unchanged(scratch: ScratchRepo, paths: list[bytes]) -> None:
    if paths:
        scratch.run("update-index", "-z", "--assume-unchanged", "--stdin", stdin=b"\0".join(paths) + b"\0")


def _has_content(repo: Repository, pointer: Pointer) -> bool:
    """Whether the file in the work tree is the content that the pointer names."""
    path = Path(os.fsdecode(os.path.join(os.fsencode(repo.top), pointer.entry.path)))  # noqa: PTH118
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size != pointer.content.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == pointer.content.oid
    except OSError:  # deleted meanwhile, or unreadable: `git add` reports it
        return False
