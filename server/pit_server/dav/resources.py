"""Files and directories of a domain as WebDAV resources."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import Any

from wsgidav.dav_error import DAVError
from wsgidav.dav_provider import DAVCollection, DAVNonCollection

from pit_protocol.atomic_file import write_all
from pit_protocol.problem import Problem
from pit_server.dav.changes import discard, read_time, suppress_exists
from pit_server.dav.streams import FixedLengthFile, UploadBody
from pit_server.dav.urls import CREATED, DavNames, Environ, problems_as_dav
from pit_server.services.files.domains import Place
from pit_server.services.files.quota import Quotas
from pit_server.store.files.domain_files import Domain, Entry, Kind
from pit_server.store.files.overlap import check_apart

BLOCK = 256 * 1024
MICROSOFT = "{urn:schemas-microsoft-com:}"


class _Resource(DavNames):
    """Common to files and directories; changes are refused where the caller may only read."""

    environ: Environ

    def hold(self, place: Place, domain: Domain, below: str, entry: Entry) -> None:
        self.place, self.domain, self.below, self.entry = place, domain, below, entry

    @property
    def _quotas(self) -> Quotas:
        quotas: Quotas = self.environ["wsgidav.provider"].head.quotas
        return quotas

    def get_last_modified(self) -> float:
        return self.entry.mtime

    def prevent_locking(self) -> bool:
        return not self.place.may_write

    def set_last_modified(self, _path: str, stamp: Any, *, dry_run: bool) -> bool:
        with self.changing() as domain:
            at = read_time(stamp)
            if not dry_run:
                with domain.parent(self.below) as (parent, name), domain.translate_errors(self.below):
                    os.utime(name, (at, at), dir_fd=parent, follow_symlinks=False)
        return True

    def set_property_value(self, name: str, value: Any, *, dry_run: bool = False) -> Any:
        if name.startswith(MICROSOFT) and "LastModifiedTime" not in name:
            return True  # Windows Explorer sets them and expects success
        return super().set_property_value(name, value, dry_run=dry_run)  # type: ignore[misc]

    def handle_delete(self) -> bool:
        # WsgiDAV has checked only the locks of the parent directory.
        self.provider.lock_manager.check_write_permission(
            url=self.get_ref_url(),
            depth="infinity",
            token_list=self.environ["wsgidav.ifLockTokenList"],
            principal=self.environ["wsgidav.user_name"],
        )
        self._discard()
        return True

    def delete(self) -> None:
        """Delete the source of a MOVE; what a MOVE or COPY replaces goes to the trash."""
        if self.environ["REQUEST_METHOD"] == "MOVE" and self._is_source():
            with self.changing() as domain:
                domain.remove(self.below)
        else:
            self._discard()

    def handle_move(self, dest_path: str) -> bool:
        """Rename within a domain; False makes WsgiDAV copy file by file."""
        target = self.other(dest_path)
        with self.changing() as domain:
            check_apart(domain, self.below, target.domain, target.below)
            if target.domain is not domain:
                return False
            there = domain.get_entry(target.below)
            self.environ[CREATED] = there is None
            if there and Kind.DIRECTORY in (there.kind, self.entry.kind):
                target.discard()
            domain.rename(self.below, target.below)
        self.remove_all_locks(recursive=True)  # type: ignore[attr-defined]
        return True

    def handle_copy(self, dest_path: str, *, depth_infinity: bool) -> bool:  # noqa: ARG002
        """Only checks: WsgiDAV copies file by file."""
        target = self.other(dest_path)
        with problems_as_dav():
            check_apart(self.domain, self.below, target.domain, target.below)
        return False

    def support_recursive_move(self, _dest_path: str) -> bool:
        return False

    def other(self, path: str) -> "Target":
        """The target of a copy or move."""
        above = self.environ["wsgidav.provider"].get_resource_inst(
            path.rstrip("/").rpartition("/")[0] or "/", self.environ
        )
        if not isinstance(above, Directory):
            raise DAVError(HTTPStatus.FORBIDDEN, "files can be created only inside a domain")
        return Target(above, path.rstrip("/").rpartition("/")[2])

    @contextmanager
    def changing(self) -> Iterator[Domain]:
        """The domain, for a change; Problems become errors of WsgiDAV."""
        with problems_as_dav():
            self.place.require_write()
            yield self.domain

    def _discard(self) -> None:
        with self.changing():
            discard(self.environ, self.place, self.below)
        self.remove_all_locks(recursive=True)  # type: ignore[attr-defined]

    def _is_source(self) -> bool:
        source = self.environ["PATH_INFO"].rstrip("/")
        return self.path == source or self.path.startswith(source + "/")

    def finalize_headers(self, _environ: Environ, headers: list[tuple[str, str]]) -> None:
        """Nothing to add."""


class Target:
    """A name in a directory: the target of a copy or move."""

    def __init__(self, above: "Directory", name: str) -> None:
        self._above = above
        self.place, self.domain = above.place, above.domain
        self.below = above.child(name)

    @contextmanager
    def changing(self) -> Iterator[Domain]:
        with self._above.changing() as domain:
            yield domain

    def discard(self) -> None:
        with self.changing():
            discard(self._above.environ, self.place, self.below)


class Directory(_Resource, DAVCollection):  # type: ignore[misc]
    def __init__(
        self, path: str, environ: Environ, place: Place, domain: Domain, below: str, entry: Entry
    ) -> None:
        DAVCollection.__init__(self, path, environ)
        self.hold(place, domain, below, entry)

    def get_preferred_path(self) -> str:
        return self.path + "/"

    def get_member_names(self) -> list[str]:
        with problems_as_dav():
            return [entry.name for entry in self.domain.entries(self.below)]

    def get_member_list(self) -> list[Any]:
        return list(self.members())

    def members(self) -> Iterator[Any]:
        with problems_as_dav():
            for entry in self.domain.entries(self.below):
                if (member := self._member(entry)) is not None:
                    yield member

    def get_member(self, name: str) -> Any:
        with problems_as_dav():
            entry = self.domain.get_entry(self.child(name))
        return self._member(entry) if entry else None

    def create_empty_resource(self, name: str) -> "File":
        with self.changing() as domain:
            if self.environ["REQUEST_METHOD"] != "PUT":  # a PUT creates the whole file or nothing
                with domain.replacing(self.child(name)):
                    pass
        empty = Entry(name, Kind.FILE, 0, 0.0, 0o600)
        return File(f"{self.path}/{name}", self.environ, self.place, self.domain, self.child(name), empty)

    def create_collection(self, name: str) -> None:
        with self.changing() as domain:
            self._quotas.require_disk_space()
            self._quotas.add_file(self.place)
            domain.make_directory(self.child(name))

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:  # noqa: ARG002
        target = self.other(dest_path)
        with target.changing() as domain, suppress_exists():
            domain.make_directory(target.below)

    def child(self, name: str) -> str:
        return f"{self.below}/{name}" if self.below else name

    def _member(self, entry: Entry) -> Any:
        where, below = f"{self.path}/{entry.name}", self.child(entry.name)
        if entry.kind is Kind.DIRECTORY:
            return Directory(where, self.environ, self.place, self.domain, below, entry)
        return File.of(where, self.environ, self.place, self.domain, below, entry)


class File(_Resource, DAVNonCollection):  # type: ignore[misc]
    def __init__(
        self, path: str, environ: Environ, place: Place, domain: Domain, below: str, entry: Entry
    ) -> None:
        DAVNonCollection.__init__(self, path, environ)
        self.hold(place, domain, below, entry)
        self._writing: ExitStack | None = None

    @classmethod
    def of(
        cls, path: str, environ: Environ, place: Place, domain: Domain, below: str, entry: Entry
    ) -> "File | None":
        """A file, or a link to a file in the same domain; None for anything else."""
        if entry.kind is Kind.LINK:
            try:
                with domain.open_file(below) as file:
                    status = os.fstat(file.fileno())
            except Problem:
                return None
            entry = Entry(entry.name, Kind.FILE, status.st_size, status.st_mtime, entry.mode)
        return cls(path, environ, place, domain, below, entry) if entry.kind is Kind.FILE else None

    def get_preferred_path(self) -> str:
        return self.path

    def get_content_length(self) -> int:
        return self.entry.size

    def get_etag(self) -> str:
        return f"{round(self.entry.mtime * 1e6):x}-{self.entry.size:x}"

    def support_etag(self) -> bool:
        return True

    def support_ranges(self) -> bool:
        return True

    def get_content(self) -> "FixedLengthFile":
        with problems_as_dav():
            return FixedLengthFile(self.domain.open_file(self.below))

    def begin_write(self, *, content_type: str | None = None) -> Any:  # noqa: ARG002
        with self.changing() as domain:
            length = self.environ.get("CONTENT_LENGTH") or ""
            announced = int(length) if length.isdecimal() else None
            before = domain.get_entry(self.below)
            if before is None:
                self._quotas.add_file(self.place)
            with ExitStack() as stack:
                reservation = stack.enter_context(self._quotas.reserve(self.place, announced or 0))
                file = stack.enter_context(domain.replacing(self.below, mode=before.mode if before else None))
                self._writing = stack.pop_all()
            return UploadBody(file, announced, reservation.take)

    def end_write(self, *, with_errors: bool) -> None:
        if self._writing is None:
            return
        writing, self._writing = self._writing, None
        if with_errors:
            broken = ConnectionError("the body ended early")
            with suppress(ConnectionError):
                writing.__exit__(ConnectionError, broken, None)
            return
        with self.changing() as domain:
            writing.__exit__(None, None, None)
            self.entry = domain.entry(self.below)

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:  # noqa: ARG002
        target = self.other(dest_path)
        with target.changing() as domain, self.domain.open_file(self.below) as source:
            self._quotas.add_file(target.place)
            with (
                self._quotas.reserve(target.place, self.entry.size) as reservation,
                domain.replacing(target.below, mode=self.entry.mode) as copy,
            ):
                while block := source.read(BLOCK):
                    reservation.take(len(block))
                    write_all(copy.fileno(), block)
            with domain.parent(target.below) as (parent, name), domain.translate_errors(target.below):
                os.utime(name, (self.entry.mtime,) * 2, dir_fd=parent, follow_symlinks=False)
