"""How the worker's calls reach the head: which certificate it must show, and what went wrong if none came."""

import ssl
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from pit_protocol.pinning import list_certificates, pinned_context
from pit_protocol.problem import Problem
from pit_worker.settings import SettingError

CONNECT_S = 5.0
# What OpenSSL and ours say of a certificate, and what a person can make of it.
_WORDS = {
    "certificate has expired": "the head's certificate has expired",
    "not yet valid": "the head's certificate is not valid yet; is this machine's clock right?",
    "not the certificate that is known": "the head shows another certificate than the known one",
    "ostname mismatch": "the head's certificate is for another name",
    "doesn't match": "the head's certificate is for another name",
    "IP address mismatch": "the head's certificate is for another name",
    "CERTIFICATE_VERIFY_FAILED": "the head's certificate is none that this machine trusts",
    "WRONG_VERSION_NUMBER": "the head does not speak TLS",
    "Connection refused": "nobody listens there",
    "NameResolutionError": "its name is not known here",
    "Name or service not known": "its name is not known here",
    "name resolution": "its name is not known here",
    "timed out": "it takes too long",
    "Connection aborted": "it hung up",
    "Connection reset": "it hung up",
    "EOF occurred": "it hung up",
    "unreachable": "there is no way to it from here",
    "No route to host": "there is no way to it from here",
    "PROTOCOL": "its TLS is too old",
}


class _Adapter(HTTPAdapter):
    """Trusts what a context trusts; and by its name whom that knows by its name."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        by_name = None if self._context.check_hostname else False
        super().init_poolmanager(*args, ssl_context=self._context, assert_hostname=by_name, **options)

    def cert_verify(self, *_: Any, **__: Any) -> None:
        """Nothing to add: requests would have its own list of authorities trusted as well."""


def open_session(url: str, certificates: tuple[str, ...]) -> requests.Session:
    """A line to the head, if it shows one of these certificates; none: one that the system trusts."""
    session = requests.Session()
    # Else a .netrc would replace the token, and a proxy of the environment would see it.
    session.trust_env = False
    if context := context_for(url, certificates):
        session.mount("https://", _Adapter(context))
    return session


def context_for(url: str, certificates: tuple[str, ...]) -> ssl.SSLContext | None:
    """By which the head is known; None where there is no TLS."""
    if not url.startswith("https:"):
        return None
    return pinned_context(certificates) if certificates else _of_system()


def _of_system() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not any(ssl.get_default_verify_paths()[:2]):
        # A Python of its own finds no list of this machine.
        context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    return context


def read_certificates(ca_file: str) -> tuple[str, ...]:
    """The certificates in a file; none if there is to be no such file; raises SettingError."""
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


def explain(error: requests.RequestException) -> str:
    """Why there was no answer, in a few words."""
    said = str(error)
    for pattern, words in _WORDS.items():
        if pattern in said:
            return words
    return type(error).__name__
