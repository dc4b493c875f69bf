"""HTTPS as pit wants it: by the head's own certificate if one is known, else by the system's CAs."""

import ssl
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import ProxyManager

from pit.address import Address
from pit_protocol.pinning import pinned_context


class SecureAdapter(HTTPAdapter):
    """Makes connections by one TLS context and nothing else."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options, **self._tls())

    def proxy_manager_for(self, proxy: Any, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(proxy, **options, **self._tls())
        return manager

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        # On its own, requests would add the CAs that it ships to the context.
        if verify is not True:
            super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]

    def _tls(self) -> dict[str, Any]:
        return {
            "ssl_context": self._context,
            "assert_hostname": None if self._context.check_hostname else False,
        }


def secure(session: requests.Session, address: Address) -> None:
    """Let the session's HTTPS accept this head alone."""
    session.mount("https://", SecureAdapter(context_of(address)))
    if address.certificates:
        session.trust_env = False  # no proxy and no CA of the environment comes between


def context_of(address: Address) -> ssl.SSLContext:
    """By which this head, and no other, is accepted."""
    if not address.certificates:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context
    return pinned_context(address.certificates)
