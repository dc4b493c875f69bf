"""A directory as a stream of `.tar.gz`, walked so that no symlink leads out of it.

The directory may change meanwhile, even by a hostile job: every step goes by descriptor and
follows no link, and what is neither file, directory nor link is left out.
"""

import errno
import gzip
import io
import os
import stat
import tarfile
from collections.abc import Generator, Iterator
from pathlib import Path

BLOCK = 256 * 1024
NO_FOLLOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def stream(directory: Path, prefix: str) -> Iterator[bytes]:
    """The archive of `directory`, everything in it below `prefix`, in pieces."""
    outlet = _Outlet()
    root = os.open(directory, NO_FOLLOW | os.O_DIRECTORY)
    try:
        with (
            gzip.GzipFile(fileobj=outlet, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for _ in _add_directory(tar, root, prefix):
                if outlet.size >= BLOCK:
                    yield outlet.take()
    finally:
        os.close(root)
    yield outlet.take()


class _Outlet(io.RawIOBase):
    """A file to write to whose content is taken away piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        self.size += len(data)
        return len(data)

    def take(self) -> bytes:
        data, self._pieces, self.size = b"".join(self._pieces), [], 0
        return data


def _add_directory(tar: tarfile.TarFile, root: int, name: str) -> Iterator[None]:
    """Add a directory and all below it; with a stack of its own, for a job may nest as deep as it likes."""
    tar.addfile(_info(name, os.fstat(root), tarfile.DIRTYPE))
    stack = [(root, name, iter(_entries(root)))]
    try:
        while stack:
            directory, path, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                if stack:
                    os.close(directory)
                continue
            inside = f"{path}/{entry}"
            try:
                below = yield from _add_entry(tar, directory, entry, inside)
            except FileNotFoundError:
                continue  # gone since it was listed
            if below is not None:
                stack.append((below, inside, iter(_entries(below))))
            yield
    finally:
        for directory, _, _ in stack[1:]:
            os.close(directory)


def _add_entry(
    tar: tarfile.TarFile, directory: int, entry: str, path: str
) -> Generator[None, None, int | None]:
    """Add one entry; a descriptor to go on with if it is a directory."""
    status = os.stat(entry, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        info = _info(path, status, tarfile.SYMTYPE)
        info.linkname = os.readlink(entry, dir_fd=directory)
        tar.addfile(info)
        return None
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return None
    try:
        descriptor = os.open(entry, NO_FOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None  # swapped for a link or a socket since
        raise
    opened = os.fstat(descriptor)
    if stat.S_ISDIR(opened.st_mode):
        tar.addfile(_info(path, opened, tarfile.DIRTYPE))
        return descriptor
    try:
        if stat.S_ISREG(opened.st_mode):
            yield from _add_file(tar, descriptor, path)
    finally:
        os.close(descriptor)
    return None


def _entries(directory: int) -> list[str]:
    return sorted(os.listdir(directory))


def _add_file(tar: tarfile.TarFile, descriptor: int, path: str) -> Iterator[None]:
    info = _info(path, os.fstat(descriptor), tarfile.REGTYPE)
    info.size = os.fstat(descriptor).st_size
    tar.addfile(info)
    assert tar.fileobj is not None  # noqa: S101 - open for writing
    left = info.size
    while left:
        # A file that shrinks meanwhile is filled up: its size is in the header already.
        data = os.read(descriptor, min(BLOCK, left)) or b"\0" * min(BLOCK, left)
        tar.fileobj.write(data)
        left -= len(data)
        yield
    padding = -info.size % tarfile.BLOCKSIZE
    tar.fileobj.write(b"\0" * padding)
    tar.offset += info.size + padding


def _info(name: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = stat.S_IMODE(status.st_mode) & 0o777  # neither setuid nor setgid leave the head
    info.mtime = int(status.st_mtime)
    return info
