"""The worker's HTTPS sessions with the head, and the certificates it must show."""

import ssl
from pathlib import Path

import requests

from pit_protocol.problem import Problem
from pit_protocol.transport import tls
from pit_protocol.transport.pinning import list_certificates, pinned_context
from pit_protocol.version_check import HEADERS
from pit_worker.settings import SettingError

CONNECT_S = 5.0


def open_session(url: str, certificates: tuple[str, ...]) -> requests.Session:
    """An HTTP session with a head that shows one of these certificates, or else one the system trusts."""
    session = requests.Session()
    # Otherwise a .netrc would replace the token, and a proxy of the environment would see it.
    session.trust_env = False
    session.headers.update(HEADERS)
    if url.startswith("https:"):
        tls.secure(session, certificates)
    return session


def context_for(url: str, certificates: tuple[str, ...]) -> ssl.SSLContext | None:
    """The TLS context for a URL; None for plain http."""
    return tls.make_context(certificates) if url.startswith("https:") else None


def read_certificates(ca_file: str) -> tuple[str, ...]:
    """The certificates in a file, none for an empty name; raises SettingError."""
    if not ca_file:
        return ()
    try:
        certificates = list_certificates(Path(ca_file).read_text(errors="replace"))
    except OSError as error:
        raise SettingError(f"the ca_file {ca_file} cannot be read: {error.strerror}") from error
    try:
        if certificates:
            pinned_context(certificates)
            return certificates
    except Problem:
        pass
    raise SettingError(f"the ca_file {ca_file} holds no certificates; `pit-worker join` fetches the head's")
