"""Copying out of the head: small files together in one stream, large ones one by one and resumable."""

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

from pit.locations import Location
from pit.patience import persist
from pit.progress import Bar
from pit.remote import DIRECTORY, FILE, LINK, Entry, Remote
from pit.safe import safe
from pit.unpacking import unpack
from pit_protocol.hashing import RunningHash
from pit_protocol.problem import Problem

SMALL = 4 * 1024 * 1024  # up to here a file travels with others
MOST_FILES, MOST_BYTES = 2000, 64 * 1024 * 1024  # of those that travel together
PARALLEL = 4


@dataclass
class Pull:
    """Where from and to, and what is to become of what is there already."""

    remote: Remote
    bar: Bar
    force: bool = False
    resume: bool = False

    def directory(self, source: Location, entries: Sequence[Entry], target: Path) -> tuple[int, int]:
        """All entries of a directory, into `target`; how many files were copied, and how many bytes."""
        target.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            _check(entry.name)
            if entry.kind == DIRECTORY:
                (target / entry.name).mkdir(parents=True, exist_ok=True)
        wanted = [entry for entry in entries if entry.kind in (FILE, LINK) and self.wants(entry, target)]
        flag = _flag(source, target)
        if flag.exists():
            _sweep(source, entries, target)
        flag.touch()
        small = [entry for entry in wanted if entry.kind == FILE and entry.size <= SMALL]
        with crew(PARALLEL) as pool:
            # The large first: they take longest, and show how fast it goes.
            works = [
                pool.submit(self.file, source.below(entry.name), entry, target / entry.name)
                for entry in wanted
                if entry.kind == FILE and entry.size > SMALL
            ]
            works += [pool.submit(self._batch, source, batch, target) for batch in batches(small)]
            for work in works:
                work.result()
        # Last, when nothing is written any more that one of them could lead astray.
        links = [entry for entry in wanted if entry.kind == LINK]
        for batch in batches(links):
            self._batch(source, batch, target)
        flag.unlink()
        sizes = [entry.size for entry in wanted if entry.kind == FILE]
        return len(sizes), sum(sizes)

    def wants(self, entry: Entry, target: Path) -> bool:
        """Whether it is still to be copied; a Problem if something is in its place that must stay."""
        path = target / entry.name
        try:
            there = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        is_same = (there.st_size, int(there.st_mtime)) == (entry.size, int(entry.mtime))
        is_newer = stat.S_ISREG(there.st_mode) and int(there.st_mtime) > int(entry.mtime)
        if self.resume and entry.kind == FILE and (is_same or is_newer):
            self.bar.advance(entry.size)
            return False
        if not (self.force or self.resume):
            raise exists(path)
        return True

    def _batch(self, source: Location, batch: Sequence[Entry], target: Path) -> None:
        names = [entry.name for entry in batch]

        def attempt() -> None:
            unpack(self.remote.tar(source, names), target, mark=_mark(source))

        persist(attempt)
        self.bar.advance(sum(entry.size for entry in batch))

    def file(self, source: Location, entry: Entry, target: Path) -> None:
        """One file: whole under its name, or still in its part, from where it goes on."""
        if target.is_dir():
            raise Problem("is_directory", f"{target} is a directory here", "move it away")
        check_place(target)
        version = hashlib.sha256(f"{source.route} {entry.size} {entry.mtime!r}".encode()).hexdigest()[:24]
        part = target.with_name(f".pit-{version}.part")
        with part.open("r+b" if self.resume and part.exists() else "w+b") as file:
            transfer = _Transfer(self.remote, source, entry.size, file, self.bar)
            with crew(1) as aside:
                # The head reads its disk once for both: it hashes while it sends.
                wanted = aside.submit(persist, lambda: self.remote.sha256(source, entry.size))
                persist(transfer.go_on, lambda: transfer.offset)
                if transfer.digest.hexdigest() != wanted.result():
                    part.unlink()
                    raise Problem(
                        "bad_hash", f"{source} is not what arrived, or was changed meanwhile", "try again"
                    )
            os.fchmod(file.fileno(), 0o755 if entry.mode & 0o100 else 0o644)
        os.utime(part, (entry.mtime, entry.mtime))
        part.replace(target)


@contextmanager
def crew(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads of a transfer; they are not waited for if it fails: what is left is for another time."""
    # Ctrl-C is the main thread's: in another it would not wake the one that waits.
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
        "file_exists", f"{path} is there already", "-f overwrites it, -c takes what is missing or newer"
    )


def check_place(target: Path) -> None:
    """A file needs a directory to be in."""
    if not target.parent.is_dir():
        raise Problem(
            "no_directory", f"{target.parent} is no directory here", "make it first, or name another"
        )


def is_unfinished(source: Location, target: Path) -> bool:
    """Whether a directory is a copy that was broken off, and not one that a copy is to be put into."""
    return _flag(source, target).exists()


def _flag(source: Location, target: Path) -> Path:
    return target / f".pit-{_mark(source)}.part"


def _mark(source: Location) -> str:
    return hashlib.sha256(source.route.encode()).hexdigest()[:24]


def _sweep(source: Location, entries: Sequence[Entry], target: Path) -> None:
    """Remove the small files that a client was killed in: they come again from their beginning."""
    for folder in {(target / entry.name).parent for entry in entries}:
        for part in folder.glob(f".pit-{_mark(source)}-*.part"):
            part.unlink(missing_ok=True)


class _Transfer:
    """A file on its way; goes on where it was when the connection broke."""

    def __init__(self, remote: Remote, source: Location, size: int, file: BinaryIO, bar: Bar) -> None:
        self._remote, self._source, self._size, self._file, self._bar = remote, source, size, file, bar
        self.digest = RunningHash()
        self._etag = ""
        while data := file.read(1024 * 1024):  # of an earlier try
            self.digest.update(data)
        self.offset = file.tell()
        bar.advance(self.offset)

    def go_on(self) -> None:
        if self.offset == self._size:
            return
        content = self._remote.content(self._source, self.offset, self._etag)
        if content.start != self.offset or (self._etag and content.etag != self._etag):
            self._begin_anew()
        self._etag = content.etag
        for chunk in content.chunks:
            self.digest.update(chunk)
            self._file.write(chunk)
            self.offset += len(chunk)
            self._bar.advance(len(chunk))

    def _begin_anew(self) -> None:
        self._bar.advance(-self.offset)
        self._file.seek(0)
        self._file.truncate()
        self.digest, self.offset = RunningHash(), 0


def batches(entries: Sequence[Entry], most_bytes: int = MOST_BYTES) -> Iterator[list[Entry]]:
    """Entries that travel together."""
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


def pass_on(remote: Remote, source: Location, stdout: BinaryIO) -> int:
    """A file to stdout, taken up again if the connection breaks."""
    if source.is_pattern and remote.get_entry(source) is None:
        raise Problem("no_file", f"{source} is a pattern; stdout takes one file", "`pit ls` lists what fits")
    offset, etag = 0, ""

    def go_on() -> None:
        nonlocal offset, etag
        content = remote.content(source, offset, etag)
        if content.start != offset:
            raise Problem("changed", f"{source} was changed while it was read", "stdout got only a part")
        etag = content.etag
        for chunk in content.chunks:
            stdout.write(chunk)
            offset += len(chunk)

    persist(go_on, lambda: offset)
    with suppress(BrokenPipeError):
        stdout.flush()
    return offset


def _check(name: str) -> None:
    """A head that is not what it seems must not write elsewhere."""
    if name.startswith("/") or "/../" in f"/{name}/":
        raise Problem("bad_name", f"the head names a file {safe(name)!r}, which leads elsewhere")
