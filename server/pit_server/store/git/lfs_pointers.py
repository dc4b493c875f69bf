"""Git LFS pointers: which files of a tree stand for large files.

Decided only by the tree's own .gitattributes and the pointer's syntax; a `.lfsconfig` is never read.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pit_server.store.git.blobs import Blobs
from pit_server.store.git.command import Git

POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)
LONGEST = 1024  # bytes of a pointer
MARK = b"filter=lfs"
PLAIN_FILES = ("100644", "100755")


@dataclass(frozen=True)
class Pointer:
    oid: str  # sha256 of the content
    size: int


def parse(content: bytes) -> Pointer | None:
    match = POINTER.fullmatch(content)
    return Pointer(match[1].decode(), int(match[2])) if match else None


def find(indexed: Git) -> dict[bytes, Pointer]:
    """The pointers of an index by path; cheap if no .gitattributes mentions Git LFS."""
    attributes = [oid for _, oid, _ in _staged(indexed, ":(glob)**/.gitattributes")]
    reader = Blobs(indexed, attributes)
    if not any(MARK in reader.whole() for _ in attributes):
        return {}
    plain = {path: oid for mode, oid, path in _staged(indexed) if mode in PLAIN_FILES}
    chosen = [path for path in _filtered(indexed, list(plain)) if path in plain]
    sizes = indexed.run("cat-file", "--batch-check", text="".join(f"{plain[path]}\n" for path in chosen))
    small = [
        path for path, line in zip(chosen, sizes.splitlines(), strict=True) if int(line.split()[2]) <= LONGEST
    ]
    reader = Blobs(indexed, [plain[path] for path in small])
    found = {path: parse(reader.whole()) for path in small}
    return {path: pointer for path, pointer in found.items() if pointer}


def _staged(indexed: Git, *patterns: str) -> Iterator[tuple[str, str, bytes]]:
    rest = b""
    for block in indexed.stream("ls-files", "--stage", "-z", "--", *patterns):
        *lines, rest = (rest + block).split(b"\0")
        for line in lines:
            facts, _, path = line.partition(b"\t")
            mode, oid, _ = facts.decode().split()
            yield mode, oid, path


def _filtered(indexed: Git, paths: list[bytes]) -> list[bytes]:
    """The paths that the tree's own attributes assign to Git LFS."""
    with tempfile.TemporaryDirectory(prefix="pit-attributes-") as scratch:
        bare = Path(scratch)
        # A repository without the attributes by which ours disable all conversions.
        for name in ("objects", "refs"):
            (bare / name).mkdir()
        (bare / "HEAD").write_text("ref: refs/heads/none\n")
        env = {**indexed.env, "GIT_OBJECT_DIRECTORY": str(indexed.directory / "objects")}
        git = replace(indexed, directory=bare, env=env)
        asked = os.fsdecode(b"".join(path + b"\0" for path in paths))
        output = b"".join(git.stream("check-attr", "--cached", "-z", "--stdin", "filter", text=asked))
    fields = output.split(b"\0")
    return [path for path, value in zip(fields[0::3], fields[2::3], strict=False) if value == b"lfs"]
