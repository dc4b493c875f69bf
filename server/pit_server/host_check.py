"""The Host check: every request, of the API and of WebDAV, must name one of the head's own hosts.

A web page can make a browser reach a head on loopback or in a private network under the page's own name (DNS
rebinding). Such a request has that name in `Host`, so it is refused before anything else handles it. A page
can also send a request that changes something under the head's own name: its `Origin` shows that.
"""

import ipaddress
import json
import re
import socket
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from pit_protocol.problem import Problem
from pit_server import tls
from pit_server.settings import Settings

LOOPBACK_NAMES = frozenset(("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"))
LOOKUP_S = 2.0  # longest wait for the name service, which may be down
REFRESH_S = 60.0  # after which an unknown name triggers a new lookup of the machine's names
READING = frozenset(("GET", "HEAD", "OPTIONS", "PROPFIND"))
SHOWN = 100  # characters of a refused host in the answer
_HOST = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f:.]+)(?:%[\w.~-]+)?\]|(?P<name>[a-z0-9_][a-z0-9_.-]*))(?::\d{0,5})?",
    re.ASCII | re.IGNORECASE,
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostCheck:
    """WSGI middleware; shared by all requests."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self._app, self._own_names = app, _OwnNames()
        self._set = frozenset(list_set(settings))
        self._url_host = urlsplit(settings.url).netloc.lower() or None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        given = environ.get("HTTP_HOST", "")
        if self._is_ours(parse(given)):
            # A WebSocket of a page can do what its user can, and begins with GET.
            changes = environ["REQUEST_METHOD"] not in READING or "HTTP_UPGRADE" in environ
            if changes and not self._is_own_page(environ):
                return _refuse(environ, start_response, _cross_site(environ.get("HTTP_ORIGIN", "")))
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        return _refuse(environ, start_response, _misdirected(given))

    def _is_own_page(self, environ: dict[str, Any]) -> bool:
        """Whether a request that changes something comes from no web page, or from one of this head."""
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            return environ.get("HTTP_SEC_FETCH_SITE", "none") in ("none", "same-origin")
        return urlsplit(origin).netloc.lower() in (environ["HTTP_HOST"].lower(), self._url_host)

    def _is_ours(self, host: str | Address | None) -> bool:
        if host is None:
            return False
        if host in self._set:
            return True
        if isinstance(host, str):
            return host in LOOPBACK_NAMES or host.endswith(".localhost") or host in self._own_names
        return host.is_loopback or _is_own_address(host)


def parse(text: str) -> str | Address | None:
    """The name or address in a `Host` header, without its port; None if it is neither."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    name = str(found["ipv6"] or found["name"]).lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name if found["name"] else None
    return getattr(address, "ipv4_mapped", None) or address


def list_set(settings: Settings) -> list[str | Address]:
    """The hosts in the settings `hosts`, `url` and `bind`; an invalid one raises a Problem."""
    hosts: list[str | Address] = []
    for text in settings.extra_hosts:
        # An IPv6 address may come without brackets, as nothing else has two colons.
        host = parse(f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text)
        if host is None:
            raise Problem(
                "bad_settings",
                f"hosts has {text!r}, which is neither a name nor an address",
                "it looks like pit.example.org,192.0.2.7",
            )
        hosts.append(host)
    bound = "" if settings.bind.startswith("unix:") else tls.parse_bind(settings.bind)[0]
    for name in (urlsplit(settings.url).hostname, bound):
        if name and name not in tls.WILDCARDS and (host := parse(f"[{name}]" if ":" in name else name)):
            hosts.append(host)
    return hosts


def _is_own_address(address: Address) -> bool:
    """Whether a local interface has the address: only then can a socket be bound to it."""
    if address.is_unspecified or address.is_multicast:
        return False
    if address.version == 4:
        return _can_bind(socket.AF_INET, (str(address), 0))
    if not address.is_link_local:
        return _can_bind(socket.AF_INET6, (str(address), 0, 0, 0))
    return any(_can_bind(socket.AF_INET6, (str(address), 0, 0, index)) for index, _ in socket.if_nameindex())


def _can_bind(family: socket.AddressFamily, place: tuple[Any, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


class _OwnNames:
    """The names of this machine, looked up in a thread because the name service may not answer."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._lookup: threading.Thread | None = None
        self._asked_at = 0.0

    def __contains__(self, name: str) -> bool:
        if name in self._names or name in _hostnames():
            return True
        lookup = self._ask()
        lookup.join(LOOKUP_S)
        return name in self._names

    def _ask(self) -> threading.Thread:
        """The last lookup, or a new one if it is too old."""
        with self._lock:
            now = time.monotonic()
            is_due = now - self._asked_at > REFRESH_S
            if self._lookup is None or (is_due and not self._lookup.is_alive()):
                self._asked_at = now
                self._lookup = threading.Thread(target=self._look_up, name="own-names", daemon=True)
                self._lookup.start()
            return self._lookup

    def _look_up(self) -> None:
        self._names = frozenset(name.lower().removesuffix(".") for name in _list_names())


def _hostnames() -> tuple[str, str]:
    name = socket.gethostname().lower()
    return name, name.partition(".")[0]


def _list_names() -> list[str]:
    try:
        name, aliases, _ = socket.gethostbyaddr(socket.gethostname())
    except OSError:
        return [tls.fqdn()]
    return [name, *aliases, tls.fqdn()]


def _misdirected(given: str) -> Problem:
    # As ASCII: it may contain anything, and is shown in a terminal.
    called = f"the host {given[:SHOWN]!a}" if given else "a request without a host"
    return Problem(
        "misdirected",
        f"this head does not answer for {called}",
        "if this is a name or address of the head, its admin adds it to the setting `hosts` in head.toml",
        status=421,
    )


def _cross_site(origin: str) -> Problem:
    page = f"a page of {origin[:SHOWN]!a}" if origin else "a page of another site"
    return Problem("cross_site", f"{page} may not change anything on this head", status=403)


def _refuse(environ: dict[str, Any], start_response: Any, problem: Problem) -> Iterable[bytes]:
    body = json.dumps(problem.to_json()).encode() + b"\n"
    headers = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body)))]
    start_response(f"{problem.status} {HTTPStatus(problem.status).phrase}", headers)
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]
