"""Scripts and styles, each under an address that changes with its content, so that browsers keep it."""

import gzip
from functools import cache
from hashlib import blake2b
from importlib import resources
from typing import NamedTuple

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from pit_server.api.http.guard import Role, allow

MEDIA = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
YEAR_S = 365 * 24 * 3600
blueprint = Blueprint("web_assets", __name__)


class Asset(NamedTuple):
    body: bytes
    packed: bytes
    mark: str  # changes with the content


@blueprint.get("/static/<path:name>")
@allow(Role.ANYONE)
def show(name: str) -> Response:
    """A script or style of the page."""
    found = _assets().get(name)
    if found is None:
        raise NotFound
    is_packed = "gzip" in request.headers.get("Accept-Encoding", "")
    is_this = request.args.get("v") == found.mark
    headers = {
        "Cache-Control": f"public, max-age={YEAR_S}, immutable" if is_this else "no-cache",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if is_packed:
        headers["Content-Encoding"] = "gzip"
    body = found.packed if is_packed else found.body
    return Response(body, headers=headers, mimetype=MEDIA[name.rpartition(".")[2]])


def url(name: str) -> str:
    """The address of an asset, for templates."""
    return f"/static/{name}?v={_assets()[name].mark}"


def list_names() -> list[str]:
    return sorted(_assets())


@cache
def _assets() -> dict[str, Asset]:
    """All of them; they are few and small."""
    found = {}
    root = resources.files("pit_server.web") / "static"
    for prefix, place in (("", root), ("vendor/", root / "vendor")):
        for entry in place.iterdir():
            if entry.is_file() and entry.name.rpartition(".")[2] in MEDIA:
                body = entry.read_bytes()
                mark = blake2b(body, digest_size=6).hexdigest()
                found[prefix + entry.name] = Asset(body, gzip.compress(body, mtime=0), mark)
    return found
