"""HTTP requests on a user's behalf; addresses are checked, also those of redirects."""

import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urljoin, urlsplit

import urllib3

from pit_protocol.problem import Problem
from pit_server.cancellation import Watch
from pit_server.settings import Settings
from pit_server.store.remotes import addresses
from pit_server.store.remotes.remote import HOST, PORTS

TIMEOUT = urllib3.Timeout(connect=10, read=30)
MOST_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)
PRIVATE_HEADERS = ("authorization", "cookie")
logging.getLogger("urllib3").setLevel(logging.INFO)  # below, it logs paths, which may be secret


def origin(url: str) -> tuple[str, str, int]:
    """Protocol, host and port of a plain http or https URL; a Problem for any other."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _odd() from None
    if (
        parts.scheme not in ("https", "http")
        or not HOST.fullmatch(host)
        or parts.username
        or not url.isprintable()
    ):
        raise _odd()
    return parts.scheme, host, port or PORTS[parts.scheme]


@contextmanager
def ask(
    settings: Settings, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> Iterator[urllib3.BaseHTTPResponse]:
    """Send one request; a download follows redirects, without credentials if they lead to another host."""
    sent = dict(headers)
    for _ in range(MOST_REDIRECTS + 1):
        with _one(settings, method, url, sent, body) as response:
            location = response.headers.get("Location")
            if method != "GET" or response.status not in REDIRECTS or not location:
                yield response
                return
            target = urljoin(url, location)
            if origin(target) != origin(url):
                sent = {name: value for name, value in sent.items() if name.lower() not in PRIVATE_HEADERS}
            url = target
    raise Problem("too_many_redirects", f"{origin(url)[1]} redirects too often")


@contextmanager
def _one(
    settings: Settings, method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> Iterator[urllib3.BaseHTTPResponse]:
    protocol, host, port = origin(url)
    if protocol not in settings.protocols:
        raise Problem("remote_not_fetchable", f"the head does not fetch over {protocol}")
    address = addresses.find(host, port, settings.local_hosts)[0]
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    name = f"[{host}]" if ":" in host else host
    shown = name if port == PORTS[protocol] else f"{name}:{port}"
    pool = (
        urllib3.HTTPSConnectionPool(
            address,
            port,
            ssl_context=ssl.create_default_context(),
            server_hostname=host,
            assert_hostname=host,
        )
        if protocol == "https"
        else urllib3.HTTPConnectionPool(address, port)
    )
    with pool, _watched(pool, settings.prepare_timeout_s):
        try:
            response = pool.urlopen(
                method,
                path,
                body=body,
                headers={**headers, "Host": shown},
                redirect=False,
                retries=False,
                timeout=TIMEOUT,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Problem("no_answer", f"{host} does not answer") from error
        with response:
            yield response


@contextmanager
def _watched(pool: urllib3.HTTPConnectionPool, most_s: float) -> Iterator[None]:
    """Break the connection when the work must stop, whatever the server sends; then raise Cancelled."""
    opened: list[socket.socket] = []

    class Connection(pool.ConnectionCls):  # type: ignore[misc, name-defined]
        def connect(self) -> None:
            super().connect()
            opened.append(self.sock)

    def disconnect() -> None:
        for connection in opened:
            with suppress(OSError):
                # That of SSLSocket would forget the TLS session while the other thread reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    pool.ConnectionCls = Connection
    watch = Watch(disconnect, most_s)
    try:
        yield
    except (urllib3.exceptions.HTTPError, Problem):
        watch.check()
        raise
    finally:
        watch.end()


def _odd() -> Problem:
    return Problem("bad_remote", "the server refers to a URL that is not allowed")
