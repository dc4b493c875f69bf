"""A git tree as a streamed tar, with exact names, modes, links and bytes."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from pit_protocol.transport.tar_reader import FILE, LINK, Member
from pit_protocol.transport.tar_writer import header, padding, sealed
from pit_server.store.files.archive import rechunk
from pit_server.store.git.blobs import Blobs
from pit_server.store.git.command import BLOCK, Git
from pit_server.store.git.lfs_pointers import Pointer
from pit_server.store.git.tree_check import GITLINK, PROGRAM, SYMLINK, Entry, entries

AT_A_TIME = 10_000  # entries in memory at a time, because a tree may have very many


def stream(
    git: Git, tree: str, large: Mapping[bytes, Pointer], find: Callable[[Pointer], Path]
) -> Iterator[bytes]:
    """The tar of a tree in pieces; `find` locates the contents of `large` files."""
    yield from rechunk(sealed(_all(git, tree, large, find)))


def _all(
    git: Git, tree: str, large: Mapping[bytes, Pointer], find: Callable[[Pointer], Path]
) -> Iterator[bytes]:
    files = (entry for entry in entries(git, tree) if entry.mode != GITLINK)
    while some := list(islice(files, AT_A_TIME)):
        blobs = Blobs(git, [entry.oid for entry in some if entry.path not in large])
        for entry in some:
            if pointer := large.get(entry.path):
                with find(pointer).open("rb") as file:
                    yield from _file(entry, pointer.size, iter(lambda file=file: file.read(BLOCK), b""))  # type: ignore[misc]
            elif entry.mode == SYMLINK:
                yield header(_member(entry, LINK, target=b"".join(blobs.next_blob())))
            else:
                yield from _file(entry, entry.size, blobs.next_blob())


def _file(entry: Entry, size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield header(_member(entry, FILE, size))
    yield from pieces
    yield padding(size)


def _member(entry: Entry, kind: bytes, size: int = 0, target: bytes = b"") -> Member:
    mode = 0o777 if kind == LINK else 0o755 if entry.mode == PROGRAM else 0o644
    return Member(os.fsdecode(entry.path), kind, mode, size, time.time(), os.fsdecode(target))
