"""The head's files as seen from here."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pit.head import Head, Unreachable
from pit.locations import Location
from pit_protocol.paths import quote_path, read_name
from pit_protocol.problem import Problem

FILE, DIRECTORY, LINK = "file", "directory", "link"
SLOWEST = 20_000_000  # bytes per second at which any head can read its own disk
PIECE = 1024 * 1024
_PLAIN = {"Accept-Encoding": "identity"}
_BYTES = {"Content-Type": "application/octet-stream"}
T = TypeVar("T")


class Entry(NamedTuple):
    """A file, directory or link, there or here; a plain tuple, for there are many."""

    name: str  # relative to what was listed
    kind: str
    size: int
    mtime: float
    mode: int
    target: str

    @classmethod
    def read(cls, fields: Any) -> "Entry":
        return cls(
            read_name(fields),
            fields["kind"],
            fields.get("size", 0),
            fields["mtime"],
            int(fields["mode"], 8),
            read_name(fields["target"]) if "target" in fields else "",
        )


class Remote:
    """One method per thing that can be done to the head's files."""

    def __init__(self, head: Head) -> None:
        self.head = head

    def entry(self, where: Location) -> Entry:
        return Entry.read(self.head.ask("GET", where.route, params={"stat": "yes"}))

    def get_entry(self, where: Location) -> Entry | None:
        try:
            return self.entry(where)
        except Problem as problem:
            if problem.status != 404 or problem.code in ("no_such_job", "no_such_domain"):
                raise
            return None

    def listing(self, where: Location, **params: str) -> dict[str, Any]:
        """The head's own JSON: one directory, or with `recursive` all below it, or what fits a `glob`."""
        with self.head.open("GET", where.route, params=params, headers=_PLAIN) as answer:
            body = b"".join(self.head.chunks(answer))
        try:
            return dict(json.loads(body))
        except ValueError:
            raise _broken() from None

    def entries(self, where: Location, **params: str) -> Iterator[Entry]:
        """The same, read while the head still writes it: there may be a hundred thousand."""
        with self.head.open("GET", where.route, params=params, headers=_PLAIN) as answer:
            yield from map(Entry.read, _fields(self.head.chunks(answer)))

    def sha256(self, where: Location, size: int) -> str:
        params = {"sha256": "yes"}
        return str(self.head.ask("GET", where.route, params=params, wait_s=size / SLOWEST)["sha256"])

    def content(self, where: Location, offset: int = 0, etag: str = "") -> "Content":
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
            self.head.chunks(answer, PIECE),
        )

    def tar(self, where: Location, names: Iterable[str]) -> Iterator[bytes]:
        """A sealed tar of files below `where`."""
        body = {"paths": [quote_path(name) for name in names]}
        with self.head.open("POST", where.route, json=body, headers=_PLAIN) as answer:
            yield from self.head.chunks(answer, PIECE)

    def arrived(self, where: Location, part: str) -> int:
        params = {"part": part, "have": "yes"}
        return int(self.head.ask("PUT", where.route, params=params)["offset"])

    def send(self, where: Location, body: Any, **params: str | int | float) -> int:
        """A part of a file; how much of it the head has then."""
        return int(self._put(where, body, params)["offset"])

    def send_tar(self, where: Location, body: bytes) -> None:
        self._put(where, body, {"tar": "yes"})

    def make_directory(self, where: Location, size: int = 0) -> None:
        """Make it, and those above it; a Problem if there is no room for so much in it."""
        self._put(where, b"", {"directory": "yes", "size": size})

    def make_link(self, where: Location, target: str) -> None:
        self._put(where, b"", {"link": quote_path(target)})

    def remove(self, where: Location) -> dict[str, Any]:
        return self.head.ask("DELETE", where.route)

    def _put(self, where: Location, body: Any, params: Any) -> dict[str, Any]:
        return self.head.ask("PUT", where.route, params=params, data=body, headers=_BYTES, wait_s=600)


@dataclass(frozen=True)
class Content:
    start: int  # where its first byte is in the file
    etag: str
    size: int  # of the whole file
    chunks: Iterator[bytes]


def _fields(chunks: Iterable[bytes]) -> Iterator[Any]:
    """What a listing says of each entry: the head writes one a line, between an opening and `]}`."""
    rest, is_open, has_ended = b"", False, False
    for chunk in chunks:
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        has_ended = lines.endswith(b"]}")
        if lines and not is_open:
            lines, is_open = lines.partition(b"\n")[2], True
        try:
            yield from json.loads(b"[%s]" % lines.removesuffix(b"]}").rstrip(b","))
        except ValueError:
            raise _broken() from None
    if not has_ended:
        raise _broken()


def _broken() -> Unreachable:
    return Unreachable("broken_listing", "the head's list breaks off")
