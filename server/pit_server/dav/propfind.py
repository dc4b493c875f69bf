"""PROPFIND as a stream: one resource after the other, while the directory is read.

WsgiDAV would build the whole answer in memory; it still decides which properties a resource has.
"""

from collections.abc import Iterable, Iterator
from html import escape
from http import HTTPStatus
from typing import Any

from wsgidav import util, xml_tools
from wsgidav.dav_error import DAVError
from wsgidav.request_server import RequestServer

from pit_server.dav.urls import Environ

BLOCK = 64 * 1024
DAV = "{DAV:}"
MODES = {f"{DAV}allprop": "allprop", f"{DAV}propname": "name", f"{DAV}prop": "named"}  # as WsgiDAV has them
BEGIN, END = b'<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">', b"</D:multistatus>"


class PropFind(RequestServer):  # type: ignore[misc]
    """The answer to one request of depth 0 or 1; `DavApp` refuses others."""

    def answer(self, environ: Environ, start_response: Any) -> Iterator[bytes]:
        path = environ["PATH_INFO"]
        found = self._davProvider.get_resource_inst(path, environ)
        if found is None:
            raise DAVError(HTTPStatus.NOT_FOUND, path)
        self._evaluate_if_headers(found, environ)
        mode, names = _parse_body(environ)
        blocks = _blocks(
            _render(resource, mode, names) for resource in _resources(found, environ["HTTP_DEPTH"])
        )
        # Errors of the directory itself are raised here, before the response begins.
        first, second = next(blocks), next(blocks, None)
        headers = [
            ("Content-Type", "application/xml; charset=utf-8"),
            ("Date", util.get_rfc1123_time()),
        ]
        if second is None:
            headers.append(("Content-Length", str(len(first))))
        start_response("207 Multi-Status", headers)
        yield first
        if second is not None:
            yield second
            yield from blocks


def _parse_body(environ: Environ) -> tuple[str, list[str] | None]:
    """Parse which properties are asked for: all, their names, or the named ones."""
    body = util.parse_xml_body(environ, allow_empty=True)
    if body is None:
        return "allprop", None
    parts = [part for part in body if part.tag in MODES]
    modes = {MODES[part.tag] for part in parts}
    if body.tag != f"{DAV}propfind" or len(modes) != 1:
        raise DAVError(HTTPStatus.BAD_REQUEST, "ask for allprop, propname or prop")
    [mode] = modes
    return mode, [each.tag for part in parts for each in part] if mode == "named" else None


def _resources(found: Any, depth: str) -> Iterator[Any]:
    yield found
    if depth == "1" and found.is_collection:
        yield from found.members()


def _render(resource: Any, mode: str, names: list[str] | None) -> bytes:
    elements_by_status: dict[str, str] = {}
    for name, value in resource.get_properties(mode, name_list=names):
        is_error = isinstance(value, DAVError)
        status = util.get_http_status_string(value) if is_error else "200 OK"
        element = _element(name, None if is_error else value)
        elements_by_status[status] = elements_by_status.get(status, "") + element
    stats = "".join(
        f"<D:propstat><D:prop>{elements}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
        for status, elements in elements_by_status.items()
    )
    href = escape(resource.get_href(), quote=False)
    return f"<D:response><D:href>{href}</D:href>{stats}</D:response>".encode()


def _element(name: str, value: Any) -> str:
    """Render one property; plain text is written directly, which takes half the time of XML elements."""
    if xml_tools.is_etree_element(value):
        if len(value):
            return _as_text(value)
        value = value.text
    if not name.startswith(DAV):
        return _as_text(xml_tools.etree.Element(name))  # such properties have no stored value
    tag = f"D:{name.removeprefix(DAV)}"
    return f"<{tag}>{escape(value, quote=False)}</{tag}>" if value else f"<{tag}/>"


def _as_text(element: Any) -> str:
    text: str = xml_tools.etree.tostring(element, encoding="unicode")
    return text


def _blocks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join the parts into blocks that are worth sending."""
    block = bytearray(BEGIN)
    for part in parts:
        block += part
        if len(block) >= BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block + END)
