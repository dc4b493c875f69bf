"""Writing an archive of unknown trust into a directory: nothing lands outside of it (S51).

Files, directories and links only. Every step goes by descriptor and follows no link; links are made
last, when nothing is written any more.
"""

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pit.safe import safe
from pit_protocol.problem import Problem
from pit_protocol.tar_reader import DIRECTORY, FILE, LINK, PIECE, Member, TarReader, bad_archive

_PLACE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_OPEN = 64  # directories whose descriptors are kept at hand
_UMASK = 0o022


def unpack(
    chunks: Iterable[bytes], target: Path, *, strip: int = 0, overwrite: bool = True, mark: str = "new"
) -> int:
    """Write a tar stream, gzip or plain, below `target`; how many entries it had.

    `strip` drops so many leading names of each path. Each file is whole or absent; `mark` is in the
    names of parts, by which to find what is left of a client that was killed. Raises a Problem for an
    archive that is broken or wants to reach beyond `target`; what came before stays.
    """
    target.mkdir(parents=True, exist_ok=True)
    reader = TarReader(chunks)
    with _Tree(target, mark, overwrite=overwrite) as tree:
        count = 0
        for member in reader.members():
            parts = _parts(member.name)[strip:]
            if not parts:
                continue
            count += 1
            tree.add(parts, member, reader)
        tree.complete()
    return count


def _parts(name: str) -> list[str]:
    """The names along a path; raises a Problem for one that leads elsewhere."""
    parts = name.split("/")
    if "/../" not in f"/{name}/" and not name.startswith("/") and "\0" not in name:
        return [part for part in parts if part not in ("", ".")]
    raise bad_archive(f"it wants to write to {safe(name)!r}")


class _Tree:
    """The directory that is written to, and what is left to do at its end."""

    def __init__(self, target: Path, mark: str, *, overwrite: bool) -> None:
        self._root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._overwrite = overwrite
        self._open: dict[str, int] = {}
        self._links: list[tuple[list[str], Member]] = []
        self._directories: dict[str, tuple[list[str], Member]] = {}
        self._part = f".pit-{mark}-{secrets.token_hex(12)}.part"

    def __enter__(self) -> "_Tree":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (*self._open.values(), self._root):
            os.close(descriptor)

    def add(self, parts: list[str], member: Member, reader: TarReader) -> None:
        if member.kind == DIRECTORY:
            self._place(parts)
            self._directories["/".join(parts)] = (parts, member)
        elif member.kind == LINK:
            self._links.append((parts, member))
        elif member.kind == FILE:
            self._write(parts, member, reader)
        else:
            raise bad_archive(f"{safe(member.name)!r} is neither file, directory nor link")

    def complete(self) -> None:
        """Make the links, then give directories their modes and times, the innermost first."""
        for parts, member in self._links:
            self._link(parts, member)
        for _, (parts, member) in sorted(self._directories.items(), reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError, Problem):
                place = self._place(parts)
                os.utime(place, (member.mtime, member.mtime))
                os.fchmod(place, 0o700 | (member.mode & 0o777 & ~_UMASK))

    def _write(self, parts: list[str], member: Member, reader: TarReader) -> None:
        place, name = self._place(parts[:-1]), parts[-1]
        self._check_free(place, name, member)
        mode = (0o700 if member.mode & 0o100 else 0o600) | (member.mode & 0o777 & ~_UMASK)
        file = os.open(self._part, _NEW, mode, dir_fd=place)
        try:
            try:
                if member.size <= PIECE:
                    _write_all(file, reader.content(member.size))
                else:
                    for piece in reader.pieces(member.size):
                        _write_all(file, piece)
                os.utime(file, (member.mtime, member.mtime))
            finally:
                os.close(file)
            self._put(place, name, member)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._part, dir_fd=place)
            raise

    def _link(self, parts: list[str], member: Member) -> None:
        place, name = self._place(parts[:-1]), parts[-1]
        self._check_free(place, name, member)
        os.symlink(member.target, self._part, dir_fd=place)
        self._put(place, name, member)

    def _put(self, place: int, name: str, member: Member) -> None:
        """Let what was written take its name; a link of that name is replaced, not followed."""
        try:
            os.rename(self._part, name, src_dir_fd=place, dst_dir_fd=place)
        except OSError as error:
            with suppress(OSError):
                os.unlink(self._part, dir_fd=place)
            if not isinstance(error, IsADirectoryError | NotADirectoryError):
                raise
            raise Problem(
                "is_directory", f"{safe(member.name)} is a directory here", "move it away"
            ) from error

    def _check_free(self, place: int, name: str, member: Member) -> None:
        if self._overwrite:
            return
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=place, follow_symlinks=False)
            raise Problem("file_exists", f"{safe(member.name)} is there already", "-f overwrites it")

    def _place(self, parts: list[str]) -> int:
        """The descriptor of a directory below the target, made where it is missing."""
        known = len(parts)
        while known and "/".join(parts[:known]) not in self._open:
            known -= 1
        place = self._open["/".join(parts[:known])] if known else self._root
        for depth in range(known, len(parts)):
            place = self._enter(place, parts[depth], "/".join(parts[: depth + 1]))
        return place

    def _enter(self, above: int, name: str, path: str) -> int:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=above)
        try:
            descriptor = os.open(name, _PLACE, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise Problem(
                "no_directory",
                f"{safe(path)} is no directory, and nothing is written past it",
                "move it away",
            ) from error
        # What is still needed is the newest, and never the one that is closed here.
        if len(self._open) >= MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        self._open[path] = descriptor
        return descriptor


def _write_all(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data) :]
