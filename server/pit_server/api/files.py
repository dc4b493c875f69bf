"""Files of the domains: listed, read and packed. `where` is a domain and a path below it.

The path is taken from the request as bytes: names need not be UTF-8, and Flask would replace what is not.
"""

import itertools
import json
import os
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from flask import Blueprint, Response, request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter

from pit_protocol.paths import name_fields, unquote_path
from pit_protocol.problem import Problem
from pit_server.api.context import head, json_body
from pit_server.api.policy import Who, allow, caller
from pit_server.api.sending import etag_of, send, set_patience
from pit_server.services import domains
from pit_server.services.domains import Place
from pit_server.store import archive, listing
from pit_server.store.beneath import Domain, Entry, Kind, parse_path
from pit_server.store.hashing import digest_of


class Where(PathConverter):
    """Like `path`, but names may have line ends."""

    regex = r"(?s:[^/].*?)"


def know_where(state: BlueprintSetupState) -> None:
    """Let the routes that follow be written with `<where:…>`."""
    state.app.url_map.converters["where"] = Where


_quoted = json.encoder.encode_basestring_ascii
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
@allow(Who.USER)
def read(where: str) -> Response | dict[str, Any]:  # noqa: ARG001 - taken as bytes
    place, path = asked()
    with place.open() as domain:
        if "stat" in request.args:
            return {"domain": place.name, **_fields(path, domain.entry(path))}
        if "sha256" in request.args:
            with domain.open_file(path) as file:
                return {"sha256": digest_of(file.fileno()), "etag": etag_of(file)}
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
@allow(Who.USER, max_bytes=MOST_PATHS)
def pack(where: str) -> Response:  # noqa: ARG001
    """A tar of some files below `where`, under the paths by which they were asked for."""
    place, path = asked()
    body = json_body()
    paths = body.get("paths") if isinstance(body, dict) else None
    if not isinstance(paths, list) or not all(isinstance(name, str) for name in paths):
        raise Problem("bad_field", "field 'paths' must be a list of paths", status=422)
    wanted = [parse_path(os.fsencode(unquote_path(name))) for name in paths]
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
    """One JSON document, written as the entries come: however many there are, few are in memory."""
    recursive = request.args.get("recursive") == "yes"
    pattern = request.args.get("glob")
    with place.open() as domain:
        found = (
            listing.walk(domain, path, recursive=recursive)
            if pattern is None
            else listing.match(domain, path, pattern)
        )
        yield from archive.gathered(_document(place, path, found), SOME)


def _document(place: Place, path: str, found: Iterable[tuple[str, Entry]]) -> Iterator[bytes]:
    """Each entry on a line of its own, so that a client can read them as they come."""
    yield json.dumps({"domain": place.name, **name_fields(path), "entries": []})[:-2].encode()
    comma = b"\n"
    for path, entry in found:
        yield comma + _line(path, entry).encode()
        comma = b",\n"
    yield b"]}\n"


def _line(path: str, entry: Entry) -> str:
    """An entry's JSON; that of a file by hand, for there may be a hundred thousand."""
    if entry.kind is not Kind.FILE or not path.isascii():
        return json.dumps(_fields(path, entry))
    return (
        f'{{"name": {_quoted(path)}, "kind": "file", "size": {entry.size}, '
        f'"mtime": {entry.mtime!r}, "mode": "{entry.mode:04o}"}}'
    )


def _fields(path: str, entry: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = name_fields(path)
    fields["kind"] = str(entry.kind)
    if entry.kind is Kind.FILE:
        fields["size"] = entry.size
    fields["mtime"] = entry.mtime
    fields["mode"] = f"{entry.mode:04o}"
    if entry.target is not None:
        fields["target"] = name_fields(entry.target)
    return fields


def _packed(place: Place, path: str, name: str) -> Generator[bytes]:
    with place.open() as domain:
        pieces = archive.whole(domain, path, name)
        yield from archive.packed(pieces) if request.args.get("tar") == "gz" else pieces


def _selected(place: Place, path: str, wanted: list[str]) -> Generator[bytes]:
    with place.open() as domain:
        yield from archive.selected(domain, path, wanted)


def _stream(pieces: Generator[bytes], mimetype: str) -> Response:
    """An answer that is written as it is made; what is wrong from the start is told as a Problem."""
    set_patience()
    first = next(pieces, b"")
    response = Response(itertools.chain([first], pieces), mimetype=mimetype)
    response.call_on_close(pieces.close)
    return response
