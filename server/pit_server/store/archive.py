"""A directory as a stream of `.tar.gz`, walked so that no symlink leads out of it.

The directory may change meanwhile, even by a hostile job: every step goes by descriptor and
follows no link, and what is neither file, directory nor link is left out.
"""

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Iterator
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


def _add_directory(tar: tarfile.TarFile, directory: int, name: str) -> Iterator[None]:
    tar.addfile(_info(name, os.fstat(directory), tarfile.DIRTYPE))
    for entry in sorted(os.listdir(directory)):
        path = f"{name}/{entry}"
        try:
            status = os.stat(entry, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                info = _info(path, status, tarfile.SYMTYPE)
                info.linkname = os.readlink(entry, dir_fd=directory)
                tar.addfile(info)
            elif stat.S_ISDIR(status.st_mode):
                yield from _with_open(tar, directory, entry, path, os.O_DIRECTORY)
            elif stat.S_ISREG(status.st_mode):
                yield from _with_open(tar, directory, entry, path, 0)
        except OSError:
            continue  # gone, or swapped for something else, since it was listed
        yield


def _with_open(tar: tarfile.TarFile, directory: int, entry: str, path: str, flag: int) -> Iterator[None]:
    descriptor = os.open(entry, NO_FOLLOW | flag, dir_fd=directory)
    try:
        if flag:
            yield from _add_directory(tar, descriptor, path)
        elif stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield from _add_file(tar, descriptor, path)
    finally:
        os.close(descriptor)


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
