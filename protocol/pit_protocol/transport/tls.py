"""HTTPS to a head: which certificate it must show, and why a connection failed.

The only module of the protocol that imports requests, which takes a while to load.
"""

import socket
import ssl
from collections.abc import Iterator
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from pit_protocol.transport.pinning import pinned_context

# What OpenSSL says where its own words do not help.
_HINTS = {
    "wrong version number": "it does not speak TLS",
    "certificate is not yet valid": "certificate is not yet valid; is this machine's clock right?",
}


class TlsAdapter(HTTPAdapter):
    """Connects with one TLS context and trusts nothing else."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options, **self._tls())

    def proxy_manager_for(self, proxy: Any, **options: Any) -> urllib3.ProxyManager:
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **options, **self._tls())
        return manager

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        # By default requests adds its own CA list to the context.
        if verify is not True:
            super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]

    def _tls(self) -> dict[str, Any]:
        return {
            "ssl_context": self._context,
            "assert_hostname": None if self._context.check_hostname else False,
        }


def make_context(certificates: tuple[str, ...]) -> ssl.SSLContext:
    """Accept a server that has one of these certificates; without any, one that the system trusts."""
    if certificates:
        return pinned_context(certificates)
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not any(ssl.get_default_verify_paths()[:2]):
        # A Python that was not built for this system does not find the system's CA list.
        context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    return context


def secure(session: requests.Session, certificates: tuple[str, ...]) -> None:
    """Make the session's HTTPS accept only what `make_context` accepts."""
    session.mount("https://", TlsAdapter(make_context(certificates)))
    if certificates:
        session.trust_env = False  # no proxy and no CA from the environment


def explain(error: BaseException) -> str:
    """Why a request failed: its innermost cause, in a few words."""
    causes = list(_list_causes(error))
    if any(isinstance(cause, socket.gaierror | urllib3.exceptions.NameResolutionError) for cause in causes):
        return "there is no such host"
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # An error raised by pit itself has no message from OpenSSL.
            text = str(getattr(cause, "verify_message", cause.args[-1])).rstrip(".")
            text = text[:1].lower() + text[1:]
            return _HINTS.get(text, text)
        if isinstance(cause, ssl.SSLError) and cause.reason:
            text = cause.reason.lower().replace("_", " ")
            return _HINTS.get(text, text)
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    # Last, because urllib3 counts a refused connection among the timeouts.
    if any(isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError) for cause in causes):
        return "it took too long"
    return "the connection broke off"


def get_verify_code(error: BaseException) -> int:
    """OpenSSL's number for what is wrong with a certificate; 0 if that is not the cause."""
    codes = (int(getattr(cause, "verify_code", 0)) for cause in _list_causes(error))
    return next(filter(None, codes), 0)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that led to it, outermost first."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        waiting.extend(cause for cause in inner if isinstance(cause, BaseException))
