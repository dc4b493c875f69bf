"""Knowing a head by its certificate: the very one, whoever else may have signed whatever."""

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
    """The certificates (PEM) in a text, in their order."""
    return tuple(_BLOCK.findall(text))


def pin_of(certificate: str) -> str:
    """What a certificate is known by: `sha256:` and the hash of its bytes; raises a Problem."""
    try:
        return _pin(ssl.PEM_cert_to_DER_cert(certificate))
    except (ValueError, binascii.Error):
        raise Problem("bad_certificate", "that is no certificate") from None


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
    """Accepts a server that proves to have one of some certificates, by whatever name it is called.

    It must still be valid in time. That one of them has signed another does not make the other good.
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
    """Raise an SSLError unless the other side has proved one of the certificates that the context knows."""
    if _pin(connection.getpeercert(binary_form=True) or b"") not in context.pins:
        raise ssl.SSLCertVerificationError("it is not the certificate that is known")


def pinned_context(certificates: Iterable[str]) -> PinnedContext:
    """A context for heads that have one of these certificates; raises a Problem if they are none."""
    known = tuple(certificates)
    context = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate itself is checked
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.pins = frozenset(map(pin_of, known))
    # The known certificate is enough, also where a CA that is not known here has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata="\n".join(known))
    except ssl.SSLError:
        raise Problem("bad_certificate", "that is no certificate") from None
    return context


def _pin(certificate: bytes) -> str:
    return "sha256:" + hashlib.sha256(certificate).hexdigest()
