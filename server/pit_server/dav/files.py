"""Files and directories of a domain as resources of WebDAV."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from wsgidav.dav_error import DAVError
from wsgidav.dav_provider import DAVCollection, DAVNonCollection

from pit_protocol.problem import Problem
from pit_server.dav.bodies import Body, Steady
from pit_server.dav.naming import CALLER, CREATED, Environ, Named, told
from pit_server.head import Head
from pit_server.services import audit, trash
from pit_server.services.domains import Place
from pit_server.services.room import Room
from pit_server.services.tokens import Caller
from pit_server.store.beneath import Domain, Entry, Kind
from pit_server.store.writing import write_all

BLOCK = 256 * 1024
MICROSOFT = "{urn:schemas-microsoft-com:}"


class _Resource(Named):
    """What files and directories have in common; every change is refused where the caller may only read."""

    environ: Environ

    def hold(self, place: Place, domain: Domain, below: str, entry: Entry) -> None:
        self.place, self.domain, self.below, self.entry = place, domain, below, entry

    def get_last_modified(self) -> float:
        return self.entry.mtime

    def prevent_locking(self) -> bool:
        return not self.place.may_write

    def set_last_modified(self, _path: str, stamp: Any, *, dry_run: bool) -> bool:
        with self.changing() as domain:
            at = _read_time(stamp)
            if not dry_run:
                with domain.parent(self.below) as (parent, name), domain.told(self.below):
                    os.utime(name, (at, at), dir_fd=parent, follow_symlinks=False)
        return True

    def set_property_value(self, name: str, value: Any, *, dry_run: bool = False) -> Any:
        if name.startswith(MICROSOFT) and "LastModifiedTime" not in name:
            return True  # Explorer insists on telling them
        return super().set_property_value(name, value, dry_run=dry_run)  # type: ignore[misc]

    def handle_delete(self) -> bool:
        # WsgiDAV has looked at the directory above alone.
        self.provider.lock_manager.check_write_permission(
            url=self.get_ref_url(),
            depth="infinity",
            token_list=self.environ["wsgidav.ifLockTokenList"],
            principal=self.environ["wsgidav.user_name"],
        )
        self._discard()
        return True

    def delete(self) -> None:
        """Called for what a MOVE or COPY leaves or replaces; only the latter is worth keeping."""
        if self.environ["REQUEST_METHOD"] == "MOVE" and self._is_source():
            with self.changing() as domain:
                domain.remove(self.below)
        else:
            self._discard()

    def handle_move(self, dest_path: str) -> bool:
        """Within a domain by the kernel, and at once; False: by copies, file by file."""
        target = self.other(dest_path)
        with self.changing() as domain:
            if target.domain is not domain:
                return False
            there = domain.get_entry(target.below)
            self.environ[CREATED] = there is None
            if there and Kind.DIRECTORY in (there.kind, self.entry.kind):
                target.discard()
            domain.rename(self.below, target.below)
        self.remove_all_locks(recursive=True)  # type: ignore[attr-defined]
        return True

    def handle_copy(self, _dest_path: str, *, depth_infinity: bool) -> bool:  # noqa: ARG002
        return False

    def support_recursive_move(self, _dest_path: str) -> bool:
        return False

    def other(self, path: str) -> "Target":
        """Where a copy or move leads."""
        above = self.environ["wsgidav.provider"].get_resource_inst(
            path.rstrip("/").rpartition("/")[0] or "/", self.environ
        )
        if not isinstance(above, Directory):
            raise DAVError(HTTPStatus.FORBIDDEN, "only inside of a directory of yours something can be made")
        return Target(above, path.rstrip("/").rpartition("/")[2])

    @contextmanager
    def changing(self) -> Iterator[Domain]:
        """The domain, to change it; Problems become what WsgiDAV knows."""
        with told():
            self.place.demand_write()
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
    """A name in a directory that something is to be copied or moved to."""

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
        with told():
            return [entry.name for entry in self.domain.entries(self.below)]

    def get_member_list(self) -> list[Any]:
        return list(self.members())

    def members(self) -> Iterator[Any]:
        with told():
            for entry in self.domain.entries(self.below):
                if (member := self._member(entry)) is not None:
                    yield member

    def get_member(self, name: str) -> Any:
        with told():
            entry = self.domain.get_entry(self.child(name))
        return self._member(entry) if entry else None

    def create_empty_resource(self, name: str) -> "File":
        with self.changing() as domain:
            if self.environ["REQUEST_METHOD"] != "PUT":  # that one makes it whole, or not at all
                with domain.replacing(self.child(name)):
                    pass
        empty = Entry(name, Kind.FILE, 0, 0.0, 0o600)
        return File(f"{self.path}/{name}", self.environ, self.place, self.domain, self.child(name), empty)

    def create_collection(self, name: str) -> None:
        with self.changing() as domain:
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
        """A file, or a link to one that stays in the domain; nothing else can be shown here."""
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

    def get_content(self) -> "Steady":
        with told():
            return Steady(self.domain.open_file(self.below))

    def begin_write(self, *, content_type: str | None = None) -> Any:  # noqa: ARG002
        with self.changing() as domain:
            length = self.environ.get("CONTENT_LENGTH") or ""
            announced = int(length) if length.isdecimal() else None
            before = domain.get_entry(self.below)
            with ExitStack() as stack:
                hold = stack.enter_context(self._room.hold(self.place, announced or 0))
                file = stack.enter_context(domain.replacing(self.below, mode=before.mode if before else None))
                self._writing = stack.pop_all()
            return Body(file, announced, hold.take)

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

    @property
    def _room(self) -> Room:
        room: Room = self.environ["wsgidav.provider"].head.room
        return room

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:  # noqa: ARG002
        target = self.other(dest_path)
        with target.changing() as domain, self.domain.open_file(self.below) as source:
            with (
                self._room.hold(target.place, self.entry.size) as hold,
                domain.replacing(target.below, mode=self.entry.mode) as copy,
            ):
                while block := source.read(BLOCK):
                    hold.take(len(block))
                    write_all(copy.fileno(), block)
            with domain.parent(target.below) as (parent, name), domain.told(target.below):
                os.utime(name, (self.entry.mtime,) * 2, dir_fd=parent, follow_symlinks=False)


def discard(environ: Environ, place: Place, below: str) -> None:
    """To the trash, from where it can be taken back; noted as in the API."""
    head: Head = environ["wsgidav.provider"].head
    caller: Caller = environ[CALLER]
    now, shown = time.time(), below.encode(errors="backslashreplace").decode()
    with head.database.write() as session:
        trash.discard(session, head.data, place, below, caller.name, now=now)
        address = environ.get("REMOTE_ADDR", "")
        audit.note(session, caller.actor, "remove files", place.name, now=now, detail=shown, address=address)
    head.room.forget(place.name)


@contextmanager
def suppress_exists() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        if problem.code != "exists":
            raise


def _read_time(stamp: Any) -> float:
    """Seconds since 1970, or a date as HTTP writes it."""
    try:
        text = str(stamp)
        return float(text) if text.isascii() and text.isdecimal() else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        raise Problem("bad_time", f"{str(stamp)[:40]!r} is no time", status=400) from None
