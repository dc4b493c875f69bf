"""Directories and files as a tar stream, walked so that no symlink leads out of them.

They may change meanwhile, even by a hostile job: every step goes by descriptor and follows no link,
and what is neither file, directory nor link is left out.
"""

import errno
import os
import stat
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, Member
from pit_protocol.transport.tar_writer import ended, header, padding, sealed
from pit_server import cancellation
from pit_server.store.files.domain_files import Domain, is_part, names_in, target_of
from pit_server.store.files.tree_walk import Trail

BLOCK = 256 * 1024
GZIP = 31  # zlib's name for a gzip header and trailer
NO_FOLLOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def stream(directory: Path, prefix: str, also: Iterable[bytes] = ()) -> Iterator[bytes]:
    """The `.tar.gz` of `directory`, everything in it below `prefix`, in pieces; `also` are more members."""
    root = os.open(directory, NO_FOLLOW | os.O_DIRECTORY)
    try:
        yield from gzipped(rechunk(ended(chain(_directory(root, prefix), also))))
    finally:
        os.close(root)


def text_file(name: str, size: int, pieces: Iterable[bytes], at: float) -> Iterator[bytes]:
    """A member with text that is made while it is sent; it gets exactly the size that was announced."""
    yield header(Member(name, FILE, 0o644, size, at, ""))
    left = size
    for piece in pieces:
        yield piece[:left]
        left -= min(left, len(piece))
    yield b"\n" * left
    yield padding(size)


def tar_directory(domain: Domain, path: str, prefix: str, also: Iterable[bytes] = ()) -> Iterator[bytes]:
    """The tar of one directory of a domain; `also` are more members."""
    with domain.directory(path) as root:
        yield from rechunk(sealed(chain(_directory(root, prefix), also), prefix))


def members(directory: Path, prefix: str) -> Iterator[bytes]:
    """A directory as members of a tar, everything in it below `prefix`."""
    root = os.open(directory, NO_FOLLOW | os.O_DIRECTORY)
    try:
        yield from _directory(root, prefix)
    finally:
        os.close(root)


def tar_files(domain: Domain, path: str, names: Iterable[str]) -> Iterator[bytes]:
    """The tar of some files and links below `path`, under the names given; what is gone is left out."""
    yield from rechunk(sealed(_selected(domain, path, names)))


def rechunk(pieces: Iterable[bytes], block: int = BLOCK) -> Iterator[bytes]:
    """The same in fewer pieces, because each one costs time to send."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= block:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same, compressed; fast rather than small."""
    pack = zlib.compressobj(1, wbits=GZIP)
    for piece in pieces:
        if some := pack.compress(piece):
            yield some
    yield pack.flush()


def skip_bytes(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """What comes after the first `size` bytes."""
    for piece in pieces:
        if size >= len(piece):
            size -= len(piece)
        else:
            yield piece[size:]
            size = 0


def _selected(domain: Domain, path: str, names: Iterable[str]) -> Iterator[bytes]:
    at_hand, place = "", -1  # the last directory: files of one directory come in sequence
    try:
        for name in names:
            cancellation.check()
            above, _, last = name.rpartition("/")
            with suppress(Problem, FileNotFoundError):
                if place < 0 or above != at_hand:
                    below = domain.open_directory("/".join(filter(None, (path, above))))
                    if place >= 0:
                        os.close(place)
                    at_hand, place = above, below
                found = yield from _entry(place, last, name)
                if found is not None:
                    os.close(found)  # without the directory's content
    finally:
        if place >= 0:
            os.close(place)


def _directory(root: int, name: str) -> Iterator[bytes]:
    """A directory and all below it; with an explicit stack, because a job may nest as deep as it likes."""
    yield _header(name, os.fstat(root), DIRECTORY)
    trail = Trail(root)
    stack = [(name, iter(names_in(root)))]
    try:
        while True:
            cancellation.check()
            path, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                if not stack:
                    return
                trail.leave()
                del stack[len(trail.parts) + 1 :]
                continue
            inside = f"{path}/{entry}"
            try:
                below = None if is_part(entry) else (yield from _entry(trail.here, entry, inside))
            except FileNotFoundError:
                continue  # gone since it was listed
            if below is not None:
                trail.enter(entry, below)
                stack.append((inside, iter(names_in(below))))
    finally:
        trail.close()


def _entry(directory: int, entry: str, path: str) -> Generator[bytes, None, int | None]:
    """One entry; returns the descriptor of a directory."""
    status = os.stat(entry, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        yield _header(path, status, LINK, target_of(directory, entry))
        return None
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return None
    try:
        descriptor = os.open(entry, NO_FOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None  # replaced by a link or a socket since
        raise
    opened = os.fstat(descriptor)
    if stat.S_ISDIR(opened.st_mode):
        yield _header(path, opened, DIRECTORY)
        return descriptor
    try:
        if stat.S_ISREG(opened.st_mode):
            yield _header(path, opened, FILE)
            yield from _content(descriptor, opened.st_size)
    finally:
        os.close(descriptor)
    return None


def _content(descriptor: int, size: int) -> Iterator[bytes]:
    left = size
    while left:
        cancellation.check()  # compressed, 8 TB of zeros are a few GB to send
        # A file that shrinks is filled up with zeros: its size is in the header already.
        data = os.read(descriptor, min(BLOCK, left)) or b"\0" * min(BLOCK, left)
        left -= len(data)
        yield data
    yield padding(size)


def _header(name: str, status: os.stat_result, kind: bytes, target: str = "") -> bytes:
    mode = stat.S_IMODE(status.st_mode)
    return header(Member(name, kind, mode, status.st_size, status.st_mtime, target))
