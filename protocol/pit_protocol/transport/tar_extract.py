"""Extracting an archive from an untrusted source: nothing lands outside the target directory.

Files, directories and links only. Each step goes by descriptor and follows no link; links are made last, when
nothing is written any more. `tarfile` and its filters are not used: see `tar_reader`.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pit_protocol.atomic_file import write_all
from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import NO_FOLLOW, DirectoryTree, get_parts, printable
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, PIECE, Member, TarReader, bad_archive

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW
_UMASK = 0o022


def extract(
    chunks: Iterable[bytes], target: Path, *, strip: int = 0, overwrite: bool = True, refused: str = ""
) -> int:
    """Extract a tar stream into `target`, which is made if it is missing; see `extract_into`."""
    target.mkdir(parents=True, exist_ok=True)
    with DirectoryTree.at(target) as tree:
        return extract_into(tree, chunks, strip=strip, overwrite=overwrite, refused=refused)


def extract_into(
    tree: DirectoryTree,
    chunks: Iterable[bytes],
    *,
    strip: int = 0,
    overwrite: bool = True,
    mark: str = "new",
    keep_modes: bool = False,
    must_be_sealed: bool = False,
    refused: str = "",
) -> int:
    """Extract a tar stream, gzip or plain, into `tree`; returns the number of entries.

    `strip` drops that many leading names of each path. Each file is whole or absent; `mark` is in the names
    of unfinished files, by which to find what a killed program left. Modes are widened for the owner and
    narrowed for others, unless they are to be kept. Raises a Problem for an archive that is broken, wants to
    reach beyond `tree`, has something of the name `refused` (in any case) or, if it `must_be_sealed`, has no
    hash at its end; what came before stays.
    """
    reader = TarReader(chunks)
    extraction = _Extraction(tree, mark, overwrite=overwrite, keep_modes=keep_modes)
    count = 0
    for member in reader.members():
        parts = _parts(member.name)[strip:]
        if not parts:
            continue
        if refused and refused in (part.lower() for part in parts):
            raise bad_archive(f"it wants to write to {member.name!r}")
        count += 1
        extraction.add(parts, member, reader)
    if must_be_sealed and not reader.is_sealed:
        raise bad_archive("it has no hash at its end")
    extraction.complete()
    return count


def _parts(name: str) -> list[str]:
    """The names along a path; raises a Problem for one that leads elsewhere."""
    parts = get_parts(name)
    if parts is None:
        raise bad_archive(f"it wants to write to {name!r}")
    return parts


class _Extraction:
    """The tree that is written to, and what is left to do at the end."""

    def __init__(self, tree: DirectoryTree, mark: str, *, overwrite: bool, keep_modes: bool) -> None:
        self._tree, self._overwrite, self._keep_modes = tree, overwrite, keep_modes
        self._new_mode = 0o700 if keep_modes else 0o755  # of directories, until the archive says it
        self._links: list[tuple[list[str], Member]] = []
        self._directories: dict[str, tuple[list[str], Member]] = {}
        self._part = f".pit-{mark}-{secrets.token_hex(12)}.part"

    def add(self, parts: list[str], member: Member, reader: TarReader) -> None:
        if member.kind == DIRECTORY:
            self._place(parts)
            self._directories["/".join(parts)] = (parts, member)
        elif member.kind == LINK:
            self._links.append((parts, member))
        elif member.kind == FILE:
            self._write(parts, member, reader)
        else:
            raise bad_archive(f"{member.name!r} is neither file, directory nor link")

    def complete(self) -> None:
        """Make the links, then set modes and times of directories, the innermost first."""
        for parts, member in self._links:
            self._link(parts, member)
        for _, (parts, member) in sorted(self._directories.items(), reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError, Problem):
                place = self._place(parts)
                os.utime(place, (member.mtime, member.mtime))
                os.fchmod(place, 0o700 | self._mode(member))

    def _write(self, parts: list[str], member: Member, reader: TarReader) -> None:
        place, name = self._place(parts[:-1]), parts[-1]
        self._check_free(place, name, member)
        file = os.open(self._part, _NEW, self._mode(member), dir_fd=place)
        try:
            try:
                if member.size <= PIECE:
                    write_all(file, reader.content(member.size))
                else:
                    for piece in reader.pieces(member.size):
                        write_all(file, piece)
                if self._tree.owner:
                    os.fchown(file, *self._tree.owner)
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
        if self._tree.owner:
            os.chown(self._part, *self._tree.owner, dir_fd=place, follow_symlinks=False)
        self._put(place, name, member)

    def _put(self, place: int, name: str, member: Member) -> None:
        """Rename what was written; a link of that name is replaced, not followed."""
        try:
            os.rename(self._part, name, src_dir_fd=place, dst_dir_fd=place)
        except OSError as error:
            with suppress(OSError):
                os.unlink(self._part, dir_fd=place)
            if not isinstance(error, IsADirectoryError | NotADirectoryError):
                raise
            raise Problem(
                "is_directory", f"{printable(member.name)} is a directory here", "move it away"
            ) from error

    def _check_free(self, place: int, name: str, member: Member) -> None:
        if self._overwrite:
            return
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=place, follow_symlinks=False)
            raise Problem("file_exists", f"{printable(member.name)} already exists", "-f overwrites it")

    def _place(self, parts: list[str]) -> int:
        return self._tree.directory(parts, make=self._new_mode)

    def _mode(self, member: Member) -> int:
        if self._keep_modes:
            return member.mode & 0o777
        return (0o700 if member.mode & 0o100 else 0o600) | (member.mode & 0o777 & ~_UMASK)
