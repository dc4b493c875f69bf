"""Certificate pinning: a head is identified by its own certificate, not by who signed it."""

import binascii
import hashlib
import re
import socket
import ssl
from collections.abc import Iterable
from typing import Any

from pit_protocol.problem import Problem

PIN = re.compile(r"sha256:[0-9a-f]{64}")
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)


def list_certificates(text: str) -> tuple[str, ...]:
    """The PEM certificates in a text, in order."""
    return tuple(_BLOCK.findall(text))


def pin_of(certificate: str) -> str:
    """The fingerprint of a certificate: `sha256:` and the hash of its bytes; raises a Problem."""
    try:
        return _pin(ssl.PEM_cert_to_DER_cert(certificate))
    except (ValueError, binascii.Error):
        raise Problem("bad_certificate", "that is not a certificate") from None


def fetch_certificate(host: str, port: int, timeout_s: float) -> str:
    """The certificate that a server shows, not trusted yet; raises OSError."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=timeout_s) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True) or b"").strip()


class PinnedContext(ssl.SSLContext):
    """Accepts a server that has one of these certificates, under any name.

    The certificate must be within its validity period. One that was signed by a pinned one is not accepted.
    """

    pins: frozenset[str]

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        wrapped = super().wrap_socket(*args, **options)
        try:
            check_pin(self, wrapped)
        except ssl.SSLError:
            wrapped.close()
            raise
        return wrapped


def check_pin(context: PinnedContext, connection: ssl.SSLSocket | ssl.SSLObject) -> None:
    """Raise an SSLError unless the server showed one of the pinned certificates."""
    if _pin(connection.getpeercert(binary_form=True) or b"") not in context.pins:
        raise ssl.SSLCertVerificationError("it is not the certificate that is known")


def pinned_context(certificates: Iterable[str]) -> PinnedContext:
    """A context for heads that have one of these certificates; raises a Problem for an invalid one."""
    known = tuple(certificates)
    context = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate itself is checked
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.pins = frozenset(map(pin_of, known))
    # The pinned certificate is enough, even if an unknown CA has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata="\n".join(known))
    except ssl.SSLError:
        raise Problem("bad_certificate", "that is not a certificate") from None
    return context


def _pin(certificate: bytes) -> str:
    return "sha256:" + hashlib.sha256(certificate).hexdigest()
