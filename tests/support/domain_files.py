"""Files of the domains as a client sends and reads them."""

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

from werkzeug.test import TestResponse

from pit_protocol import API_PREFIX
from pit_server.context import Head
from tests.support.clusters.head import Caller

PART = "0123456789abcdef"


def route(domain: str, path: bytes = b"") -> str:
    return f"/files/{domain}/{quote_from_bytes(path)}" if path else f"/files/{domain}"


def send(
    who: Caller, domain: str, path: bytes, body: bytes, *, sha256: str | None = None, **query: Any
) -> TestResponse:
    """A whole file in one part."""
    given = {
        "part": PART,
        "offset": 0,
        "size": len(body),
        "sha256": sha256 or hashlib.sha256(body).hexdigest(),
        **query,
    }
    return who.call("PUT", route(domain), data=body, query_string=given, **as_bytes(domain, path))


def as_bytes(domain: str, path: bytes) -> dict[str, Any]:
    """The path as bytes, as a server passes it on; the test client would decode it."""
    raw = f"{API_PREFIX}/files/{domain}/".encode() + path
    return {"environ_overrides": {"PATH_INFO": raw.decode("latin-1")}}


def names(who: Caller, domain: str, path: bytes = b"", **query: str) -> list[str]:
    listed = who.ok(who.get(route(domain, path), query_string=query))
    return [entry["name"] for entry in listed["entries"]]


def home(head: Head, user: str = "anna") -> Path:
    return head.data.home(user)
