"""A domain's files, reached from its directory's descriptor: no name, link or race leads out of it.

Names are bytes to the kernel; here they are texts with surrogates for what is no UTF-8.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

from pit_protocol.atomic_file import sync_directory
from pit_protocol.problem import Problem
from pit_server.store.files import openat
from pit_server.store.files.openat import PLACE
from pit_server.store.files.rename import move_new
from pit_server.store.files.syncfs import sync_filesystem

LONGEST_PATH, LONGEST_NAME = 4096, 255
PART = ".pit-{}.part"  # an unfinished file; not listed, and swept if it is left over
TEMPORARY = ".pit-new-{}.part"  # the same for one request: no other can resume it
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


class Kind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"  # a device, pipe or socket: listed, never opened


class Entry(NamedTuple):
    """What is under a name; a plain tuple, because there are many."""

    name: str
    kind: Kind
    size: int
    mtime: float
    mode: int
    target: str | None = None  # of a link


@dataclass(frozen=True)
class Ownership:
    """Owner and permissions of new files."""

    uid: int = -1  # the head's own
    gid: int = -1
    file_mode: int = 0o644
    directory_mode: int = 0o755


def parse_path(raw: bytes) -> str:
    """Parse a path below a domain from the API; empty is the domain itself. Raises a Problem."""
    path = os.fsdecode(raw.removesuffix(b"/"))
    if not path:
        return ""
    parts = path.split("/")
    if "\0" in path or ".." in parts or "." in parts or "" in parts:
        raise Problem("bad_path", f"{path[:200]!r} is not a path below a directory", status=422)
    if len(raw) >= LONGEST_PATH or any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
        raise Problem("bad_path", f"the path {path[:40]!r}… is too long", status=422)
    return path


def is_part(name: str) -> bool:
    """Whether this is a file that is still being written."""
    return name.startswith(".pit-") and name.endswith(".part")


def is_temporary(part: str) -> bool:
    """Whether a part belongs to one request only, so that no other can resume it."""
    return part.startswith(".pit-new-")


class Domain:
    """One directory tree; `label` is its name in messages. Raises Problems."""

    def __init__(self, directory: Path, label: str, ownership: Ownership | None = None) -> None:
        self.label = label
        self._ownership = ownership or Ownership()
        self._owner = (self._ownership.uid, self._ownership.gid)
        try:
            self._root = os.open(directory, PLACE | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise Problem("no_directory", f"{label} has no directory", status=404) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def open_file(self, path: str) -> BinaryIO:
        """A regular file for reading; a link is followed if it stays inside the domain."""
        with self.translate_errors(path):
            descriptor = openat.resolve(self._root, path or ".", os.O_RDONLY | os.O_NONBLOCK)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            if stat.S_ISDIR(mode):
                raise Problem("is_directory", f"{self.named(path)} is a directory", status=409)
            raise self._odd(path)
        return os.fdopen(descriptor, "rb", buffering=0)

    def open_directory(self, path: str) -> int:
        """A directory's descriptor, to be read and closed by the caller."""
        with self.translate_errors(path):
            return openat.resolve(self._root, path or ".", DIRECTORY)

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """The same as a context manager."""
        descriptor = self.open_directory(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def entry(self, path: str) -> Entry:
        """The entry at a path; a link itself, not its target."""
        if not path:
            with self.directory("") as root:
                return _entry("", os.fstat(root))
        with self.parent(path) as (parent, name), self.translate_errors(path):
            return entry_at(parent, name)

    def get_entry(self, path: str) -> Entry | None:
        try:
            return self.entry(path)
        except Problem as problem:
            if problem.status != 404:
                raise
            return None

    def entries(self, path: str) -> Iterator[Entry]:
        """The entries of a directory, sorted by name, without unfinished files."""
        with self.directory(path) as descriptor:
            for name in names_in(descriptor):
                with suppress(FileNotFoundError):  # gone since
                    if not is_part(name):
                        yield entry_at(descriptor, name)

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        """Make a directory; with `parents` also those above it, and an existing one is fine."""
        if parents:
            above = path.rpartition("/")[0]
            if above and not self._is_directory(above):
                self.make_directory(above, parents=True)
        with self.parent(path) as (parent, name), self.translate_errors(path):
            try:
                os.mkdir(name, 0o700, dir_fd=parent)
            except FileExistsError:
                if not parents:
                    raise
                if not self._is_directory(path):
                    hint = "name another place, or move it away"
                    raise Problem(
                        "exists", f"{self.named(path)} is not a directory", hint, status=409
                    ) from None
                return
            made = os.open(name, DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                self._give(made, self._ownership.directory_mode)
            finally:
                os.close(made)

    @contextmanager
    def replacing(self, path: str, *, mode: int | None = None, sync: bool = True) -> Iterator[BinaryIO]:
        """A file to write to, which replaces `path` at the end if all went well.

        It is on disk then, unless `sync` is off and the caller syncs later.
        """
        part = TEMPORARY.format(secrets.token_hex(12))
        with self.parent(path) as (parent, name):
            with self.translate_errors(path):
                descriptor = create_at(parent, part)
            try:
                with os.fdopen(descriptor, "w+b", buffering=0) as file:
                    yield file
                    with self.translate_errors(path):
                        self.finish(file.fileno(), mode)
                        if sync:
                            os.fsync(file.fileno())
                with self.translate_errors(path):
                    os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
                    if sync:
                        sync_directory(parent)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=parent)

    def finish(self, descriptor: int, mode: int | None = None) -> None:
        """Set owner and mode of a new file; of `mode` only the executable bit counts."""
        own = self._ownership.file_mode
        wanted = own | ((own & 0o444) >> 2) if (mode or 0) & 0o100 else own
        self._give(descriptor, wanted)

    def sync(self) -> None:
        """Wait until all writes are on disk: one call for many files."""
        with self.directory("") as root, self.translate_errors(""):
            sync_filesystem(root)

    def make_link(self, path: str, target: str) -> None:
        """Make a link in place of any file; its target is not checked."""
        part = TEMPORARY.format(secrets.token_hex(12))
        with self.parent(path) as (parent, name), self.translate_errors(path):
            os.symlink(target, part, dir_fd=parent)
            try:
                os.chown(part, *self._owner, dir_fd=parent, follow_symlinks=False)
                os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(part, dir_fd=parent)
                raise

    def remove(self, path: str) -> None:
        """Remove a file, a link or an empty directory."""
        with self.parent(path) as (parent, name), self.translate_errors(path):
            is_directory = stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
            (os.rmdir if is_directory else os.unlink)(name, dir_fd=parent)

    def rename(self, old: str, new: str) -> None:
        """Move within the domain; what is at `new` is replaced, unless it is a directory with content."""
        with (
            self.parent(old) as (source, name),
            self.parent(new) as (target, new_name),
            self.translate_errors(old),
        ):
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)

    def move_out(self, path: str, target: Path) -> None:
        """Move something out of the domain, to a path of the head; it lasts if this returns."""
        with self.parent(path) as (parent, name), self.translate_errors(path):
            os.rename(name, target, src_dir_fd=parent)
            sync_directory(target.parent)
            sync_directory(parent)

    def move_in(self, source: Path, path: str) -> None:
        """The inverse of `move_out`; an existing file stays, and is a Problem."""
        above = path.rpartition("/")[0]
        if above:
            self.make_directory(above, parents=True)
        with self.parent(path) as (parent, name), self.translate_errors(path):
            try:
                move_new(source, name, parent)
            except FileExistsError:
                hint = "move it away, or remove it, and try again"
                raise Problem("exists", f"{self.named(path)} already exists", hint, status=409) from None

    def named(self, path: str) -> str:
        """Its name in messages."""
        shown = path.encode("utf-8", "backslashreplace").decode()
        return f"{self.label} {shown}" if path else self.label

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The descriptor of the directory that holds `path`, and the name in it."""
        above, _, name = path.rpartition("/")
        if not name:
            raise Problem(
                "is_domain", f"{self.label} itself stays as it is", "name what is in it", status=422
            )
        with self.translate_errors(path):
            descriptor = openat.resolve(self._root, above or ".", PLACE)
        try:
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _is_directory(self, path: str) -> bool:
        try:
            os.close(openat.resolve(self._root, path, PLACE))
        except OSError:
            return False
        return True

    def _give(self, descriptor: int, mode: int) -> None:
        if self._owner != (-1, -1):
            os.fchown(descriptor, *self._owner)
        os.fchmod(descriptor, mode)  # last: changing the owner clears setgid

    @contextmanager
    def translate_errors(self, path: str) -> Iterator[None]:
        """Turn an OSError about `path` into a Problem."""
        try:
            yield
        except OSError as error:
            raise self._problem(error, path) from error

    def _problem(self, error: OSError, path: str) -> Problem:
        named = self.named(path)
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return Problem(
                "no_such_file", f"{named} is not there", "`pit ls` lists what is there", status=404
            )
        if error.errno in (errno.EXDEV, errno.ELOOP):
            return Problem("leads_out", f"{named} is a link that leads out of {self.label}", status=404)
        if error.errno == errno.ENAMETOOLONG:
            return Problem("bad_path", f"{named[:80]}… is too long", status=422)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return Problem("exists", f"{named} already exists", status=409)
        if error.errno == errno.EISDIR:
            return Problem("is_directory", f"{named} is a directory", status=409)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "remove what is not needed, or ask an admin"
            return Problem("disk_full", f"the head's disk is full: {named} was not written", hint, status=507)
        if error.errno in (errno.EIO, errno.EROFS):
            why = f"{named}: the head's disk does not work: {os.strerror(error.errno).lower()}"
            return Problem("disk_broken", why, "ask an admin", status=503)
        if error.errno == errno.ENXIO:
            return self._odd(path)
        why = (error.strerror or str(error)).lower()
        return Problem("no_access", f"{named}: {why}", "ask an admin", status=403)

    def _odd(self, path: str) -> Problem:
        return Problem("no_file", f"{self.named(path)} is neither file nor directory", status=409)


def entry_at(directory: int, name: str) -> Entry:
    """One entry of an open directory, as it is: no link is followed."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    target = target_of(directory, name) if stat.S_ISLNK(status.st_mode) else None
    return _entry(name, status, target)


def target_of(directory: int, name: str) -> str:
    """The target of a link; FileNotFoundError also if it is no longer a link."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
        raise


def names_in(directory: int) -> list[str]:
    """The names in an open directory, in order."""
    return sorted(os.listdir(directory))


def create_at(directory: int, name: str) -> int:
    """Create a file that only the head can read yet; locked, so that it does not look left over."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=directory)
    with suppress(BlockingIOError):  # the sweep looks at it right now, and sees that it is new
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _entry(name: str, status: os.stat_result, target: str | None = None) -> Entry:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), Kind.OTHER)
    return Entry(name, kind, status.st_size, status.st_mtime, stat.S_IMODE(status.st_mode), target)


_KINDS = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.DIRECTORY, stat.S_IFLNK: Kind.LINK}
