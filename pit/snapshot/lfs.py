"""Git LFS: a pointer in the tree, the content in the work tree or on the remote's LFS server.

An unchanged LFS file stays a pointer: the head downloads its content from the LFS server. A changed one,
or one that the head cannot download, is sent as an ordinary file.
"""

import hashlib
import os
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from pit.snapshot.repository import Repository
from pit.snapshot.scratch_repo import Entry, ScratchRepo
from pit_protocol.problem import Problem
from pit_protocol.submission import LfsFile

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


def keep_pointers(
    repo: Repository,
    scratch: ScratchRepo,
    pointers: list[Pointer],
    changed: set[bytes],
    embed: Container[str],
) -> tuple[Pointer, ...]:
    """Keep the pointers of unchanged files in the scratch index, and return them."""
    kept, from_disk = [], []
    for pointer in pointers:
        if pointer.content.oid in embed:
            if not _embed(repo, scratch, pointer):
                from_disk.append(pointer.entry)
        elif pointer.entry.path not in changed or _has_content(repo, pointer):
            kept.append(pointer)
        else:
            from_disk.append(pointer.entry)
    scratch.add_entries([entry.line for entry in from_disk])
    _assume_unchanged(scratch, [pointer.entry.path for pointer in kept])
    return tuple(kept)


def _embed(repo: Repository, scratch: ScratchRepo, pointer: Pointer) -> bool:
    """Add the content from git-lfs's local store; return False if the work tree has it."""
    if _has_content(repo, pointer):
        return False
    oid = pointer.content.oid
    stored = repo.paths["lfs/objects"] / oid[:2] / oid[2:4] / oid
    if not stored.is_file():
        name = os.fsdecode(pointer.entry.path)
        raise Problem(
            "no_lfs_content",
            f"the Git LFS content of {name} is not on this machine, and the head cannot download it",
            "`git lfs pull` downloads it",
        )
    blob = scratch.line("hash-object", "-w", "--no-filters", "--", str(stored)).encode()
    scratch.add_entries([pointer.entry.mode + b" " + blob + b"\t" + pointer.entry.path])
    _assume_unchanged(scratch, [pointer.entry.path])
    return True


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
