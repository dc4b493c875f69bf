"""Large files of Git LFS: a pointer in the tree, the content in the work tree or at the remote.

An unchanged one stays a pointer, for the head gets its content from where the remote keeps it. One
that has changed, or that the head cannot get, travels as an ordinary file.
"""

import hashlib
import os
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from pit.project import Project
from pit.scratch import Entry, Scratch
from pit_protocol.problem import Problem
from pit_protocol.submission import LargeFile

POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
MAX_POINTER = 1024


@dataclass(frozen=True)
class Pointer:
    entry: Entry
    content: LargeFile


def list_pointers(project: Project, entries: list[Entry]) -> list[Pointer]:
    """Those of the entries whose objects are pointers."""
    if not entries:
        return []
    asked = b"\n".join(entry.blob for entry in entries) + b"\n"
    sizes = project.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).split(b"\n")
    # One that is missing, as in a partial clone, has no size.
    sized = [(entry, int(size)) for entry, size in zip(entries, sizes, strict=False) if size.isdigit()]
    small = [entry for entry, size in sized if size <= MAX_POINTER]
    texts = project.run("cat-file", "--batch", stdin=b"".join(entry.blob + b"\n" for entry in small))
    pointers, position = [], 0
    for entry in small:
        header_end = texts.index(b"\n", position)
        size = int(texts[position:header_end].split()[2])
        text = texts[header_end + 1 : header_end + 1 + size]
        position = header_end + 1 + size + 1
        if found := POINTER.fullmatch(text):
            pointers.append(Pointer(entry, LargeFile(found[1].decode(), int(found[2]))))
    return pointers


def settle(
    project: Project, scratch: Scratch, pointers: list[Pointer], changed: set[bytes], embed: Container[str]
) -> tuple[Pointer, ...]:
    """Keep the pointers of unchanged files in the scratch index; returns those."""
    kept, taken = [], []
    for pointer in pointers:
        if pointer.content.oid in embed:
            if not _embed(project, scratch, pointer):
                taken.append(pointer.entry)
        elif pointer.entry.path not in changed or _has_content(project, pointer):
            kept.append(pointer)
        else:
            taken.append(pointer.entry)
    scratch.enter([entry.line for entry in taken])
    _leave_alone(scratch, [pointer.entry.path for pointer in kept])
    return tuple(kept)


def _embed(project: Project, scratch: Scratch, pointer: Pointer) -> bool:
    """Take the content from git-lfs's own store; False if the work tree has it."""
    if _has_content(project, pointer):
        return False
    oid = pointer.content.oid
    stored = project.paths["lfs/objects"] / oid[:2] / oid[2:4] / oid
    if not stored.is_file():
        name = os.fsdecode(pointer.entry.path)
        raise Problem(
            "no_large_file",
            f"the content of {name} is kept by Git LFS, and neither here nor where the head gets it",
            "`git lfs pull` brings it here",
        )
    blob = scratch.line("hash-object", "-w", "--no-filters", "--", str(stored)).encode()
    scratch.enter([pointer.entry.mode + b" " + blob + b"\t" + pointer.entry.path])
    _leave_alone(scratch, [pointer.entry.path])
    return True


def _leave_alone(scratch: Scratch, paths: list[bytes]) -> None:
    if paths:
        scratch.run("update-index", "-z", "--assume-unchanged", "--stdin", stdin=b"\0".join(paths) + b"\0")


def _has_content(project: Project, pointer: Pointer) -> bool:
    """Whether the file in the work tree is what the pointer stands for."""
    path = Path(os.fsdecode(os.path.join(os.fsencode(project.top), pointer.entry.path)))  # noqa: PTH118
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size != pointer.content.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == pointer.content.oid
    except OSError:  # gone meanwhile, or not to be read: who adds it tells
        return False
