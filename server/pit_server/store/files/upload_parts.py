"""Resumable uploads: received data stays beside the target under a hidden name until it is complete.

A part is identified by its key and its sender, and can be resumed, even after a crash of the head.
It gets the target's name only if its hash is right.
"""

import errno
import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pit_protocol.atomic_file import sync_directory, write_all
from pit_protocol.problem import Problem
from pit_protocol.transport.hashing import RunningHash
from pit_server.store.files.domain_files import PART, Domain
from pit_server.store.files.file_hashes import digest_of, remember

BLOCK = 1024 * 1024
MOST_RUNNING = 256  # uploads whose hash is computed while they arrive
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Upload:
    """An upload: its target, sender and key."""

    path: str
    sender: str
    key: str

    @property
    def part(self) -> str:
        """The hidden name; it depends on the sender, so that nobody writes to another user's part."""
        text = "\0".join((self.sender, self.key, self.path))
        return PART.format(hashlib.sha256(os.fsencode(text)).hexdigest()[:24])


@dataclass(frozen=True)
class Claim:
    """What the sender says about the complete file."""

    size: int
    sha256: str
    mode: int = 0
    mtime: float | None = None
    is_new: bool = False  # must not replace anything


def received(domain: Domain, upload: Upload) -> int:
    """How many bytes have arrived."""
    with domain.parent(upload.path) as (parent, _):
        try:
            return os.stat(upload.part, dir_fd=parent, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0


def receive(domain: Domain, upload: Upload, offset: int, body: Readable, most: int | None = None) -> int:
    """Write the body from `offset` on; returns the new size. What came before a broken body stays."""
    with _opened(domain, upload) as (part, parent):
        if offset > (known := os.fstat(part).st_size):
            if not known:
                os.unlink(upload.part, dir_fd=parent)  # was created just now, by opening it
            raise Problem(
                "gap",
                f"only {known} bytes of {domain.named(upload.path)} have arrived",
                "try again; somebody else may have sent the same at the same time",
                status=409,
            )
        os.ftruncate(part, offset)
        os.lseek(part, offset, os.SEEK_SET)
        try:
            return _write(domain, upload, part, offset, body, most)
        except Problem as problem:
            if problem.code == "disk_full":
                # Free the space: others need it more than a retry does.
                os.unlink(upload.part, dir_fd=parent)
            raise


def _write(domain: Domain, upload: Upload, part: int, offset: int, body: Readable, most: int | None) -> int:
    digest = _running.take(part, offset)
    while data := body.read(BLOCK):
        offset += len(data)
        if most is not None and offset > most:
            raise Problem("too_much", f"{domain.named(upload.path)}: more data than announced", status=413)
        with domain.translate_errors(upload.path):
            write_all(part, data)
        if digest:
            digest.update(data)
            _running.put(part, offset, digest)
    return offset


def complete(domain: Domain, upload: Upload, claim: Claim) -> None:
    """Rename the part to its target; a part with a wrong hash is deleted."""
    with _opened(domain, upload) as (part, parent):
        digest = _running.take(part, claim.size)
        found = digest.hexdigest() if digest else digest_of(part)
        if os.fstat(part).st_size != claim.size or found != claim.sha256:
            os.unlink(upload.part, dir_fd=parent)
            raise Problem(
                "bad_hash",
                f"{domain.named(upload.path)}: the hash does not match what was sent",
                "send it again",
                status=422,
            )
        with domain.translate_errors(upload.path):
            domain.finish(part, claim.mode)
            if claim.mtime is not None:
                os.utime(part, (claim.mtime, claim.mtime))
            os.fsync(part)
            _give_name(domain, upload, parent, claim)
            sync_directory(parent)
            remember(part, claim.sha256)


def _give_name(domain: Domain, upload: Upload, parent: int, claim: Claim) -> None:
    name = upload.path.rpartition("/")[2]
    if not claim.is_new:
        os.rename(upload.part, name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    try:
        # Unlike a rename, a link never replaces a file that appeared meanwhile.
        os.link(upload.part, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        if not _is_it(name, parent, claim):
            what = f"{domain.named(upload.path)} was created a moment ago"
            raise Problem("exists", what, "`pit push -f` overwrites it", status=409) from None
    finally:
        os.unlink(upload.part, dir_fd=parent)


def _is_it(name: str, parent: int, claim: Claim) -> bool:
    """Whether the file is the claimed one: sent before, by a request whose answer was lost."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    except OSError:  # a link, or gone again
        return False
    try:
        status = os.fstat(file)
        is_alike = stat.S_ISREG(status.st_mode) and status.st_size == claim.size
        return is_alike and digest_of(file) == claim.sha256
    finally:
        os.close(file)


def sweep(directory: int, name: str, before: float) -> bool:
    """Delete a part that is older than `before` and not in use; returns whether it did."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if status.st_mtime >= before or stat.S_ISDIR(status.st_mode):
        return False
    if not stat.S_ISREG(status.st_mode):
        os.unlink(name, dir_fd=directory)
        return True
    part = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
    try:
        fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_left := _is_named(part, directory, name):
            os.unlink(name, dir_fd=directory)
        return is_left
    except BlockingIOError:
        return False
    finally:
        os.close(part)


class _Running:
    """Hashes of unfinished parts; a missing one is computed from the file at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[int, int], tuple[int, RunningHash]] = {}

    def take(self, part: int, offset: int) -> RunningHash | None:
        """The hash of what is before `offset`, if it is known."""
        status = os.fstat(part)
        with self._lock:
            reached, digest = self._known.pop((status.st_dev, status.st_ino), (0, RunningHash()))
        return digest if reached == offset else RunningHash() if offset == 0 else None

    def put(self, part: int, offset: int, digest: RunningHash) -> None:
        status = os.fstat(part)
        with self._lock:
            while len(self._known) >= MOST_RUNNING:
                self._known.pop(next(iter(self._known)))
            self._known[status.st_dev, status.st_ino] = (offset, digest)


_running = _Running()


@contextmanager
def _opened(domain: Domain, upload: Upload) -> Iterator[tuple[int, int]]:
    """The part, locked against other requests."""
    with domain.parent(upload.path) as (parent, _):
        with domain.translate_errors(upload.path):
            part = _hold(parent, upload.part)
        if part is None:
            what = domain.named(upload.path)
            raise Problem("busy", f"{what} is being uploaded already", "wait for that upload", status=409)
        try:
            yield part, parent
        finally:
            os.close(part)


def _hold(parent: int, name: str) -> int | None:
    """The locked descriptor of the part; None if another request has it."""
    while True:
        part = os.open(name, _OPEN, 0o600, dir_fd=parent)
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another request may have completed it: then this is the target by now.
            if _is_named(part, parent, name):
                return part
        except BlockingIOError:
            os.close(part)
            return None
        except OSError:
            os.close(part)
            raise
        os.close(part)


def _is_named(part: int, parent: int, name: str) -> bool:
    opened = os.fstat(part)
    if not stat.S_ISREG(opened.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    try:
        return os.path.samestat(opened, os.stat(name, dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return False
