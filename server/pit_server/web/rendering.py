"""Templates with the headers that keep a page from running anything that is not ours."""

from functools import cache
from typing import Any

from flask import Response, g, request
from jinja2 import Environment, PackageLoader, StrictUndefined

from pit_protocol import __version__
from pit_protocol.arrays.numbers import job_name
from pit_server.services.users.tokens import Caller
from pit_server.web import assets, formats

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def render(template: str, code: int = 200, **values: Any) -> Response:
    """The page of this template for the current caller."""
    caller: Caller | None = g.get("caller")
    text = (
        _environment()
        .get_template(template)
        .render(me=caller, path=request.path, address=_address(), version=__version__, **values)
    )
    return Response(text, code, HEADERS, mimetype="text/html")


def _address() -> str:
    """Where the caller is, to come back to after signing in."""
    query = request.query_string.decode(errors="replace")
    return f"{request.path}?{query}" if query else request.path


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("pit_server.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(formats.FILTERS)
    made.globals.update(asset=assets.url, job_name=job_name)
    return made
