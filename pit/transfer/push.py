"""Copying to the head: small files together in one stream, large ones one by one and resumable."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pit.args.remote_path import RemotePath
from pit.head.files_api import DIRECTORY, FILE, LINK, Entry, FilesApi
from pit.head.retry import with_retry
from pit.transfer.pull import PARALLEL, batches, transfer_threads
from pit.ui.progress import Bar
from pit_protocol.problem import Problem
from pit_protocol.transport import tar_reader
from pit_protocol.transport.hashing import RunningHash
from pit_protocol.transport.tar_reader import Member
from pit_protocol.transport.tar_writer import header, padding, sealed

SMALL = 1024 * 1024  # smaller files are sent together
LAST = 4 * 1024 * 1024  # the end of a file, sent with the hash of the whole file
PIECE = 1024 * 1024
MOST_BYTES = 16 * 1024 * 1024  # of small files that are sent together, and held in memory


@dataclass
class Push:
    """One upload, and what happens to files that exist already."""

    remote: FilesApi
    bar: Bar
    force: bool = False
    resume: bool = False

    @property
    def is_new(self) -> str:
        """Whether nothing may be overwritten, in the API's words."""
        return "no" if self.force or self.resume else "yes"

    def directory(
        self, source: Path, entries: Sequence[Entry], target: RemotePath, there: Mapping[str, Entry]
    ) -> int:
        """Send all entries of a directory that are not `there` yet; returns how many files."""
        wanted = [entry for entry in entries if self.wants(entry, there.get(entry.name), target)]
        if wanted or not there:
            # Before anything is made: what does not fit leaves nothing behind.
            self.remote.make_directory(target, sum(entry.size for entry in wanted if entry.kind == FILE))
        small = [entry for entry in wanted if entry.kind != FILE or entry.size <= SMALL]
        large = [entry for entry in wanted if entry.kind == FILE and entry.size > SMALL]
        # Directories first, so that large files find theirs.
        for batch in batches([entry for entry in small if entry.kind == DIRECTORY]):
            self._batch(source, batch, target)
        with transfer_threads(PARALLEL) as pool:
            files = [entry for entry in small if entry.kind != DIRECTORY]
            works = [
                pool.submit(self.file, source / entry.name, entry, target.below(entry.name))
                for entry in large
            ]
            works += [pool.submit(self._batch, source, batch, target) for batch in batches(files, MOST_BYTES)]
            for work in works:
                work.result()
        return sum(entry.kind == FILE for entry in wanted)

    def wants(self, entry: Entry, there: Entry | None, target: RemotePath) -> bool:
        """Whether it must be sent; a Problem if something is in its place that must stay."""
        if there is None:
            return True
        if entry.kind == DIRECTORY and there.kind == DIRECTORY:
            return False
        if self.resume and is_same(entry, there):
            self.bar.advance(entry.size)
            return False
        if not (self.force or self.resume):
            raise exists(target.below(entry.name))
        return True

    def file(self, source: Path, entry: Entry, target: RemotePath) -> None:
        """Send one file; it stays in a part beside its target until it is complete and its hash is right."""
        stamp = f"{source.absolute()} {entry.size} {entry.mtime!r}"
        part = hashlib.sha256(os.fsencode(stamp)).hexdigest()[:32]
        with source.open("rb") as file:
            sending = _Sending(self.remote, target, entry, part, file, self.bar, self.is_new)
            if self.resume:
                sending.offset = min(self.remote.arrived(target, part), entry.size)
                self.bar.advance(sending.offset)
            with_retry(sending.resume, lambda: sending.offset)

    def _batch(self, source: Path, batch: Sequence[Entry], target: RemotePath) -> None:
        body = b"".join(sealed(_members(source, batch)))
        with_retry(lambda: self.remote.send_tar(target, body))
        self.bar.advance(sum(entry.size for entry in batch if entry.kind == FILE))


class _Sending:
    """The upload of a file; resumes with what the head has when the connection breaks."""

    def __init__(
        self,
        remote: FilesApi,
        target: RemotePath,
        entry: Entry,
        part: str,
        file: BinaryIO,
        bar: Bar,
        is_new: str,
    ) -> None:
        self._remote, self._target, self._entry, self._part = remote, target, entry, part
        self._file, self._bar, self._is_new = file, bar, is_new
        self.offset = 0
        self._tries = 0

    def resume(self) -> None:
        if self._tries:
            arrived = self._remote.arrived(self._target, self._part)
            self._bar.advance(arrived - self.offset)
            self.offset = arrived
        self._tries += 1
        digest = _hash_to(self._file, self.offset)
        size = self._entry.size
        if (most := max(0, size - LAST)) > self.offset:
            body = _Body(self._file, most - self.offset, self._note, digest.update)
            self._remote.send(self._target, body, part=self._part, offset=self.offset, size=size)
        rest = self._file.read(size - self.offset)
        digest.update(rest)
        if self._file.read(1) or self.offset + len(rest) != size:
            raise Problem("changed", f"{self._file.name} changes while it is sent", "try again")
        self._remote.send(
            self._target,
            rest,
            part=self._part,
            offset=self.offset,
            size=size,
            sha256=digest.hexdigest(),
            mode=f"{self._entry.mode & 0o777:o}",
            mtime=self._entry.mtime,
            new=self._is_new,
        )
        self._note(len(rest))

    def _note(self, size: int) -> None:
        self.offset += size
        self._bar.advance(size)


class _Body:
    """A part of a file as a request's body, counted and hashed as it is read.

    Not a Python stream: with a `tell` method, requests would take it for read already and send it chunked.
    """

    def __init__(self, file: BinaryIO, size: int, *notes: Callable[..., object]) -> None:
        self._file, self._left = file, size
        self._note, self._hash = notes

    def __len__(self) -> int:
        return self._left

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")

    def read(self, _size: int = -1) -> bytes:
        data = self._file.read(min(PIECE, self._left))
        self._left -= len(data)
        self._hash(data)
        self._note(len(data))
        return data


def send_stdin(push: Push, target: RemotePath, stdin: BinaryIO) -> int:
    """Send stdin, whose length is unknown; it cannot be resumed."""
    part, offset, digest = os.urandom(16).hex(), 0, hashlib.sha256()
    while len(data := stdin.read(LAST)) == LAST:
        digest.update(data)
        offset = push.remote.send(target, data, part=part, offset=offset)
        push.bar.advance(len(data))
    digest.update(data)
    size, sha256 = offset + len(data), digest.hexdigest()
    return push.remote.send(target, data, part=part, offset=offset, size=size, sha256=sha256, new=push.is_new)


def is_same(one: Entry, other: Entry) -> bool:
    """Whether two entries look like the same content: by size and time, as far as both ends keep it."""
    if one.kind != other.kind or one.kind == LINK:
        return one.kind == other.kind and one.target == other.target
    return (one.size, int(one.mtime)) == (other.size, int(other.mtime))


def exists(where: RemotePath) -> Problem:
    hint = "-f overwrites it, -c sends only what differs"
    return Problem("file_exists", f"{where} already exists", hint)


def _hash_to(file: BinaryIO, offset: int) -> RunningHash:
    """The hash of what the head has already; leaves the file at that position."""
    digest = RunningHash()
    file.seek(0)
    while file.tell() < offset and (data := file.read(min(PIECE, offset - file.tell()))):
        digest.update(data)
    return digest


def _members(source: Path, batch: Sequence[Entry]) -> Iterator[bytes]:
    kinds = {FILE: tar_reader.FILE, DIRECTORY: tar_reader.DIRECTORY, LINK: tar_reader.LINK}
    for entry in batch:
        content = (source / entry.name).read_bytes() if entry.kind == FILE else b""
        yield header(
            Member(entry.name, kinds[entry.kind], entry.mode, len(content), entry.mtime, entry.target)
        )
        yield content + padding(len(content))
