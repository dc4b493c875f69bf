"""Files of the domains: listed, read and packed. `where` is a domain and a path below it.

The path is taken from the request as bytes: names need not be UTF-8, and Flask would replace what is not.
"""

import itertools
import os
from collections.abc import Generator, Iterable, Iterator

from flask import Blueprint, Response, request
from flask.sansio.blueprints import BlueprintSetupState
from msgspec import UNSET, UnsetType
from werkzeug.routing import PathConverter

from pit_protocol.answers.files import FileEntry, FileHash, FileListing, FileStat, PathName
from pit_protocol.messages.request_bodies import Paths
from pit_protocol.paths import NameFields, name_fields, unquote_path
from pit_protocol.problem import Problem
from pit_protocol.wire import encode
from pit_server.api.http.context import head, message
from pit_server.api.http.description import Param, describe, flag
from pit_server.api.http.file_response import etag_of, send, set_stall_timeout
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.files import domains
from pit_server.services.files.domains import Place
from pit_server.store.files import archive, listing
from pit_server.store.files.domain_files import Domain, Entry, Kind, parse_path
from pit_server.store.files.file_hashes import digest_of, turn_of
from pit_server.traffic import Traffic


class EntryFields(NameFields):
    """What `FileEntry` and `FileStat` have in common."""

    kind: str
    size: int | UnsetType
    mtime: float
    mode: str
    target: PathName | UnsetType


class Where(PathConverter):
    """Like `path`, but names may have line ends."""

    regex = r"(?s:[^/].*?)"


def know_where(state: BlueprintSetupState) -> None:
    """Let the routes that follow be written with `<where:…>`."""
    state.app.url_map.converters["where"] = Where


blueprint = Blueprint("files", __name__, url_prefix="/files")
blueprint.record(know_where)
MOST_PATHS = 8 * 1024 * 1024  # bytes of a list of them
SOME = 64 * 1024  # bytes of a listing, which the client reads while the next are written


def asked() -> tuple[Place, str]:
    """The domain and the path that the request names, if the caller may read there."""
    raw = request.environ["PATH_INFO"].encode("latin-1").partition(b"/files/")[2]
    name, _, path = raw.partition(b"/")
    parsed = parse_path(path)
    with head().database.read() as session:
        place = domains.find(session, caller(), head().data, name.decode(errors="replace"))
    return place, parsed


@blueprint.get("/<where:where>")
@allow(Role.USER, traffic=Traffic.TRANSFER)
@describe(
    flag("list", "as a list, also for a file"),
    flag("stat", "its entry alone"),
    flag("sha256", "the hash of a file"),
    flag("recursive", "everything below"),
    Param("glob", "only what matches, such as `**/*.txt`"),
    Param("tar", "a directory as a tar", values=("yes", "gz")),
    sends=("application/octet-stream", "application/x-tar", "application/gzip", "application/json"),
)
def read(where: str) -> Response | FileStat | FileHash:  # noqa: ARG001 - taken as bytes
    """A file, or a directory as a list or a tar."""
    place, path = asked()
    with place.open() as domain:
        if "stat" in request.args:
            return FileStat(domain=place.name, **_fields(path, domain.entry(path)))
        if "sha256" in request.args:
            with domain.open_file(path) as file, turn_of(caller().user_id or 0):
                return FileHash(digest_of(file.fileno()), etag_of(file))
        if not {"tar", "glob"} & request.args.keys() and not _is_directory(domain, path):
            if "list" in request.args:
                only = [(path, domain.entry(path))]
                return Response(_document(place, "", only), mimetype="application/json")
            return send(domain.open_file(path))
    if "tar" in request.args:
        name = path.rpartition("/")[2] or place.name.replace(":", "-")
        pieces = _packed(place, path, name)
        return _stream(pieces, "application/gzip" if request.args["tar"] == "gz" else "application/x-tar")
    return _stream(_listed(place, path), "application/json")


@blueprint.post("/<where:where>")
@allow(Role.USER, max_bytes=MOST_PATHS, traffic=Traffic.TRANSFER)
@describe(body=Paths, sends=("application/x-tar",))
def pack(where: str) -> Response:  # noqa: ARG001
    """A tar of some files below `where`, under the paths by which they were asked for."""
    place, path = asked()
    wanted = [parse_path(os.fsencode(unquote_path(name))) for name in message(Paths).paths]
    return _stream(_selected(place, path, wanted), "application/x-tar")


def _is_directory(domain: Domain, path: str) -> bool:
    try:
        with domain.directory(path):
            return True
    except Problem as problem:
        if problem.status != 404:
            raise
        return False


def _listed(place: Place, path: str) -> Generator[bytes]:
    """One JSON document, written as the entries come, so that only a few are in memory."""
    recursive = request.args.get("recursive") == "yes"
    pattern = request.args.get("glob")
    with place.open() as domain:
        found = (
            listing.walk(domain, path, recursive=recursive)
            if pattern is None
            else listing.match(domain, path, pattern)
        )
        yield from archive.rechunk(_document(place, path, found), SOME)


def _document(place: Place, path: str, found: Iterable[tuple[str, Entry]]) -> Iterator[bytes]:
    """Each entry on a line of its own, so that a client can read them as they come."""
    yield encode(FileListing(domain=place.name, **name_fields(path), entries=[])).removesuffix(b"]}")
    comma = b"\n"
    for path, entry in found:
        yield comma + encode(_listed_entry(path, entry))
        comma = b",\n"
    yield b"]}\n"


def _listed_entry(path: str, entry: Entry) -> FileEntry:
    if entry.kind is not Kind.FILE or not path.isascii():
        return FileEntry(**_fields(path, entry))
    # The common case without the detour over a dict, because there may be 100,000 of them.
    mode = f"{entry.mode:04o}"
    return FileEntry(name=path, kind="file", size=entry.size, mtime=entry.mtime, mode=mode)


def _fields(path: str, entry: Entry) -> EntryFields:
    return {
        **name_fields(path),
        "kind": entry.kind,
        "size": entry.size if entry.kind is Kind.FILE else UNSET,
        "mtime": entry.mtime,
        "mode": f"{entry.mode:04o}",
        "target": UNSET if entry.target is None else PathName(**name_fields(entry.target)),
    }


def _packed(place: Place, path: str, name: str) -> Generator[bytes]:
    with place.open() as domain:
        pieces = archive.tar_directory(domain, path, name)
        yield from archive.gzipped(pieces) if request.args.get("tar") == "gz" else pieces


def _selected(place: Place, path: str, wanted: list[str]) -> Generator[bytes]:
    with place.open() as domain:
        yield from archive.tar_files(domain, path, wanted)


def _stream(pieces: Generator[bytes], mimetype: str) -> Response:
    """Send the pieces as they are made; what fails before the first one is still a Problem."""
    set_stall_timeout()
    first = next(pieces, b"")
    response = Response(itertools.chain([first], pieces), mimetype=mimetype)
    response.call_on_close(pieces.close)
    return response
