"""The head's API for files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from pit.args.remote_path import RemotePath
from pit.head.client import Head
from pit.head.http_session import Unreachable
from pit_protocol.answers.files import (
    FileEntry,
    FileHash,
    FileListing,
    PartArrived,
    PathWritten,
    TarArrived,
    TrashEntry,
)
from pit_protocol.paths import quote_path
from pit_protocol.problem import Problem
from pit_protocol.wire import decode

FILE, DIRECTORY, LINK = "file", "directory", "link"
SLOWEST = 20_000_000  # bytes per second at which any head can read its own disk
PIECE = 1024 * 1024
_PLAIN = {"Accept-Encoding": "identity"}
_BYTES = {"Content-Type": "application/octet-stream"}
T = TypeVar("T")


class Entry(NamedTuple):
    """A file, directory or link, on the head or here; a plain tuple, because there are many."""

    name: str  # relative to what was listed
    kind: str
    size: int
    mtime: float
    mode: int
    target: str

    @classmethod
    def of(cls, entry: FileEntry) -> "Entry":
        return cls(
            entry.name if entry.encoded is UNSET else entry.path,
            entry.kind,
            0 if isinstance(entry.size, UnsetType) else entry.size,
            entry.mtime,
            int(entry.mode, 8),
            "" if isinstance(entry.target, UnsetType) else entry.target.path,
        )


class FilesApi:
    """One method per operation on the head's files."""

    def __init__(self, head: Head) -> None:
        self.head = head

    def entry(self, where: RemotePath) -> Entry:
        return Entry.of(self.head.ask(FileEntry, "GET", where.route, params={"stat": "yes"}))

    def get_entry(self, where: RemotePath) -> Entry | None:
        try:
            return self.entry(where)
        except Problem as problem:
            if problem.status != 404 or problem.code in ("no_such_job", "no_such_domain"):
                raise
            return None

    def listing(self, where: RemotePath, **params: str) -> FileListing:
        """One directory, or with `recursive` everything below it, or what matches a `glob`."""
        with self.head.open("GET", where.route, params=params, headers=_PLAIN) as answer:
            body = b"".join(self.head.chunks(answer))
        try:
            return decode(FileListing, body)
        except Problem:
            raise _broken() from None

    def entries(self, where: RemotePath, **params: str) -> Iterator[Entry]:
        """The same, parsed while it arrives: there may be a hundred thousand."""
        with self.head.open("GET", where.route, params=params, headers=_PLAIN) as answer:
            yield from map(Entry.of, _entries(self.head.chunks(answer)))

    def sha256(self, where: RemotePath, size: int) -> str:
        params = {"sha256": "yes"}
        return self.head.ask(FileHash, "GET", where.route, params=params, wait_s=size / SLOWEST).sha256

    def content(self, where: RemotePath, offset: int = 0, etag: str = "") -> "Content":
        """A file's bytes from `offset` on, if it is still the version that `etag` names."""
        headers = dict(_PLAIN)
        if offset:
            headers["Range"] = f"bytes={offset}-"
            if etag:
                headers["If-Range"] = etag
        answer = self.head.open("GET", where.route, headers=headers)
        if answer.headers.get("Content-Type", "").startswith("application/json"):
            answer.close()
            raise Problem(
                "is_directory", f"{where} is a directory", "`pit ls` lists it, `pit pull` copies it"
            )
        start = offset if answer.status_code == 206 else 0
        return Content(
            start,
            answer.headers.get("ETag", ""),
            start + int(answer.headers.get("Content-Length", "0")),
            _read_time(answer.headers.get("Last-Modified", "")),
            self.head.chunks(answer, PIECE),
        )

    def tar(self, where: RemotePath, names: Iterable[str]) -> Iterator[bytes]:
        """A sealed tar of files below `where`."""
        body = {"paths": [quote_path(name) for name in names]}
        with self.head.open("POST", where.route, json=body, headers=_PLAIN) as answer:
            yield from self.head.chunks(answer, PIECE)

    def arrived(self, where: RemotePath, part: str) -> int:
        params = {"part": part, "have": "yes"}
        return self.head.ask(PartArrived, "PUT", where.route, params=params).offset

    def send(self, where: RemotePath, body: Any, **params: str | int | float) -> int:
        """Send a part of a file; returns how much of it the head has then."""
        return self._put(PartArrived, where, body, params).offset

    def send_tar(self, where: RemotePath, body: bytes) -> None:
        self._put(TarArrived, where, body, {"tar": "yes"})

    def make_directory(self, where: RemotePath, size: int = 0) -> None:
        """Make it and its parents; a Problem if there is no space for `size` bytes."""
        self._put(PathWritten, where, b"", {"directory": "yes", "size": size})

    def make_link(self, where: RemotePath, target: str) -> None:
        self._put(PathWritten, where, b"", {"link": quote_path(target)})

    def remove(self, where: RemotePath) -> TrashEntry:
        return self.head.ask(TrashEntry, "DELETE", where.route)

    def _put(self, kind: type[T], where: RemotePath, body: Any, params: Any) -> T:
        return self.head.ask(kind, "PUT", where.route, params=params, data=body, headers=_BYTES, wait_s=600)


@dataclass(frozen=True)
class Content:
    start: int  # where its first byte is in the file
    etag: str
    size: int  # of the whole file
    mtime: float  # in whole seconds; behind a link, that of the file
    chunks: Iterator[bytes]


def _entries(chunks: Iterable[bytes]) -> Iterator[FileEntry]:
    """The entries of a listing: the head writes one per line, between an opening line and `]}`."""
    rest, is_open, has_ended = b"", False, False
    for chunk in chunks:
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        has_ended = lines.endswith(b"]}")
        if lines and not is_open:
            lines, is_open = lines.partition(b"\n")[2], True
        try:
            yield from decode(list[FileEntry], b"[%s]" % lines.removesuffix(b"]}").rstrip(b","))
        except Problem:
            raise _broken() from None
    if not has_ended:
        raise _broken()


def _read_time(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return 0.0


def _broken() -> Unreachable:
    return Unreachable("broken_listing", "the head's list breaks off")
