"""The description of the API itself, and a page to try it."""

from functools import cache
from importlib import resources

import msgspec
from flask import Blueprint, Flask, Response, current_app

from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow
from pit_server.api.openapi import document

blueprint = Blueprint("openapi", __name__)
MEDIA = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@blueprint.get("/openapi.json")
@allow(Role.ANYONE)
@describe(sends=("application/json",))
def show() -> Response:
    """This API as an OpenAPI 3.1 document."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    return Response(_document(app), mimetype="application/json")


@blueprint.get("/docs")
@allow(Role.ANYONE)
@describe(sends=("text/html",))
def page() -> Response:
    """A page that lists all routes and calls them."""
    return _send("page.html")


@blueprint.get("/docs/page.js")
@allow(Role.ANYONE)
@describe(sends=("text/javascript",))
def script() -> Response:
    """The script of that page."""
    return _send("page.js")


@blueprint.get("/docs/page.css")
@allow(Role.ANYONE)
@describe(sends=("text/css",))
def style() -> Response:
    """The style of that page."""
    return _send("page.css")


@cache
def _document(app: Flask) -> bytes:
    return msgspec.json.encode(document.make(app))


def _send(name: str) -> Response:
    return Response(_asset(name), headers=HEADERS, mimetype=MEDIA[name.rpartition(".")[2]])


@cache
def _asset(name: str) -> bytes:
    return (resources.files("pit_server.api.openapi") / name).read_bytes()
