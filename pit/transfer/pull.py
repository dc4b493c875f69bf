"""Copying from the head: small files together in one stream, large ones one by one and resumable."""

import hashlib
import os
import signal
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pit.args.remote_path import RemotePath
from pit.head.files_api import DIRECTORY, FILE, LINK, Entry, FilesApi
from pit.head.retry import with_retry
from pit.ui.progress import Bar
from pit.ui.sanitize import sanitize
from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import DirectoryTree, get_parts
from pit_protocol.transport.hashing import RunningHash
from pit_protocol.transport.tar_extract import extract_into

SMALL = 4 * 1024 * 1024  # smaller files are sent together
MOST_FILES, MOST_BYTES = 2000, 64 * 1024 * 1024  # of one such batch
PARALLEL = 4
_MODE = 0o777  # of new directories, before the umask


@dataclass
class Pull:
    """One download, and what happens to files that exist already."""

    remote: FilesApi
    bar: Bar
    force: bool = False
    resume: bool = False

    def directory(
        self, source: RemotePath, entries: Sequence[Entry], root: Path, name: str = ""
    ) -> tuple[int, int]:
        """Copy all entries of a directory into `root`, or into `name` in it; returns files and bytes.

        The user named `root`, and it may be a link. Below it no link is followed: others choose what is
        there.
        """
        inside = _parts(name) if name else []
        root.mkdir(parents=True, exist_ok=True)
        with DirectoryTree.at(root) as top, top.below(inside, make=_MODE) as tree:
            wanted = self._prepare(tree, source, entries)
            self._copy(tree, source, wanted)
            with suppress(FileNotFoundError):
                os.unlink(_flag(source), dir_fd=tree.directory(()))
        sizes = [entry.size for entry in wanted if entry.kind == FILE]
        return len(sizes), sum(sizes)

    def _prepare(self, tree: DirectoryTree, source: RemotePath, entries: Sequence[Entry]) -> list[Entry]:
        """Make the directories and the marker of an unfinished copy; returns what is to be copied."""
        for entry in entries:
            parts = _parts(entry.name)
            if entry.kind == DIRECTORY:
                tree.directory(parts, make=_MODE)
        wanted = [entry for entry in entries if entry.kind in (FILE, LINK) and self.wants(entry, tree)]
        if _is_file(tree.get_status([_flag(source)])):
            _sweep(source, entries, tree)
        os.close(tree.create([_flag(source)]))
        return wanted

    def _copy(self, tree: DirectoryTree, source: RemotePath, wanted: Sequence[Entry]) -> None:
        files = [entry for entry in wanted if entry.kind == FILE]
        with transfer_threads(PARALLEL) as pool:
            # The large ones first: they take longest, and show the speed.
            works = [
                pool.submit(self._large, source.below(entry.name), entry, tree)
                for entry in files
                if entry.size > SMALL
            ]
            small = [entry for entry in files if entry.size <= SMALL]
            works += [pool.submit(self._batch, source, batch, tree) for batch in batches(small)]
            for work in works:
                work.result()
        # Links last: a directory of this copy must not turn into a link while files are written to it.
        for batch in batches([entry for entry in wanted if entry.kind == LINK]):
            self._batch(source, batch, tree)

    def wants(self, entry: Entry, tree: DirectoryTree) -> bool:
        """Whether it must be copied; a Problem if something is in its place that must stay."""
        there = tree.get_status(_parts(entry.name))
        if there is None:
            return True
        is_same = _is_file(there) and (there.st_size, int(there.st_mtime)) == (entry.size, int(entry.mtime))
        if self.resume and entry.kind == FILE and is_same:
            self.bar.advance(entry.size)
            return False
        if not (self.force or self.resume):
            raise exists(tree.path / entry.name)
        return True

    def _batch(self, source: RemotePath, batch: Sequence[Entry], tree: DirectoryTree) -> None:
        names = [entry.name for entry in batch]

        def attempt() -> None:
            with tree.clone() as own:
                extract_into(own, self.remote.tar(source, names), mark=_mark(source))

        with_retry(attempt)
        self.bar.advance(sum(entry.size for entry in batch))

    def _large(self, source: RemotePath, entry: Entry, tree: DirectoryTree) -> None:
        with tree.clone() as own:
            self.file(source, entry, own)

    def file(self, source: RemotePath, entry: Entry, tree: DirectoryTree) -> None:
        """Copy one file: it gets its name when it is complete, and resumes from its part before that."""
        *above, name = _parts(entry.name)
        place = tree.directory(above, make=_MODE)
        tree.check_no_directory([*above, name])
        version = hashlib.sha256(f"{source.route} {entry.size} {entry.mtime!r}".encode()).hexdigest()[:24]
        part = f".pit-{version}.part"
        with os.fdopen(self._open_part(tree, [*above, part], entry.size), "r+b") as file:
            transfer = _Transfer(self.remote, source, entry.size, file, self.bar)
            with transfer_threads(1) as aside:
                # The head reads its disk once for both: it hashes while it sends.
                wanted = aside.submit(with_retry, lambda: self.remote.sha256(source, entry.size))
                with_retry(transfer.resume, lambda: transfer.offset)
                if transfer.digest.hexdigest() != wanted.result():
                    os.unlink(part, dir_fd=place)
                    raise Problem(
                        "bad_hash", f"{source} is not what arrived, or was changed meanwhile", "try again"
                    )
            file.flush()  # a write after this would set the time again
            os.fchmod(file.fileno(), 0o755 if entry.mode & 0o100 else 0o644)
            os.utime(file.fileno(), (entry.mtime, entry.mtime))
        os.replace(part, name, src_dir_fd=place, dst_dir_fd=place)

    def _open_part(self, tree: DirectoryTree, parts: Sequence[str], size: int) -> int:
        """Open the part of an earlier pull to resume it, or a new one."""
        there = tree.get_status(parts)
        if not (self.resume and there and _is_file(there) and there.st_size <= size):
            return tree.create(parts)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(parts[-1], flags, dir_fd=tree.directory(parts[:-1]))


@contextmanager
def transfer_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads of a transfer; if it fails, nobody waits for them."""
    # Only the main thread takes Ctrl-C: in another one it would not wake the thread that waits.
    pool = ThreadPoolExecutor(
        count, initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, {signal.SIGINT})
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def exists(path: Path) -> Problem:
    return Problem(
        "file_exists", f"{sanitize(path)} already exists", "-f overwrites it, -c takes only what differs"
    )


def check_place(target: Path) -> None:
    """Raise a Problem if a file's directory does not exist."""
    if not target.parent.is_dir():
        raise Problem(
            "no_directory", f"{target.parent} is not a directory here", "make it first, or name another"
        )


def is_unfinished(source: RemotePath, target: Path) -> bool:
    """Whether a directory is an interrupted copy, rather than one to copy into."""
    if not target.is_dir():
        return False
    with DirectoryTree.at(target) as tree:
        return _is_file(tree.get_status([_flag(source)]))


def _is_file(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)


def _flag(source: RemotePath) -> str:
    return f".pit-{_mark(source)}.part"


def _mark(source: RemotePath) -> str:
    return hashlib.sha256(source.route.encode()).hexdigest()[:24]


def _sweep(source: RemotePath, entries: Sequence[Entry], tree: DirectoryTree) -> None:
    """Remove small files that a killed client left unfinished: they are fetched again from the start."""
    prefix = f".pit-{_mark(source)}-"
    for folder in sorted({tuple(_parts(entry.name)[:-1]) for entry in entries}):
        with suppress(FileNotFoundError):
            place = tree.directory(folder)
            with os.scandir(place) as found:
                files = [item.name for item in found if not item.is_dir(follow_symlinks=False)]
            for name in files:
                if name.startswith(prefix) and name.endswith(".part"):
                    os.unlink(name, dir_fd=place)


class _Transfer:
    """The transfer of a file; resumes where it was when the connection broke."""

    def __init__(self, remote: FilesApi, source: RemotePath, size: int, file: BinaryIO, bar: Bar) -> None:
        self._remote, self._source, self._size, self._file, self._bar = remote, source, size, file, bar
        self.digest = RunningHash()
        self._etag = ""
        while data := file.read(1024 * 1024):  # from an earlier try
            self.digest.update(data)
        self.offset = file.tell()
        bar.advance(self.offset)

    def resume(self) -> None:
        if self.offset == self._size:
            return
        content = self._remote.content(self._source, self.offset, self._etag)
        if content.start != self.offset or (self._etag and content.etag != self._etag):
            self._restart()
        self._etag = content.etag
        for chunk in content.chunks:
            self.digest.update(chunk)
            self._file.write(chunk)
            self.offset += len(chunk)
            self._bar.advance(len(chunk))

    def _restart(self) -> None:
        self._bar.advance(-self.offset)
        self._file.seek(0)
        self._file.truncate()
        self.digest, self.offset = RunningHash(), 0


def batches(entries: Sequence[Entry], most_bytes: int = MOST_BYTES) -> Iterator[list[Entry]]:
    """Entries that are sent together."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= MOST_FILES or size + entry.size > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def copy_to_stdout(remote: FilesApi, source: RemotePath, stdout: BinaryIO) -> int:
    """Copy a file to stdout; resumes if the connection breaks."""
    if source.is_pattern and remote.get_entry(source) is None:
        raise Problem("no_file", f"{source} is a pattern; stdout takes one file", "`pit ls` lists what fits")
    offset, etag = 0, ""

    def resume() -> None:
        nonlocal offset, etag
        content = remote.content(source, offset, etag)
        if content.start != offset:
            raise Problem("changed", f"{source} was changed while it was read", "stdout got only a part")
        etag = content.etag
        for chunk in content.chunks:
            stdout.write(chunk)
            offset += len(chunk)

    with_retry(resume, lambda: offset)
    with suppress(BrokenPipeError):
        stdout.flush()
    return offset


def _parts(name: str) -> list[str]:
    """The names along a path; a Problem if an untrusted head wants to write elsewhere."""
    parts = get_parts(name)
    if not parts:
        raise Problem("bad_name", f"the head names a file {sanitize(name)!r}, which leads elsewhere")
    return parts
