"""Pinning: a head is identified by the key of its certificate, not by who signed it."""

import binascii
import hashlib
import re
import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pit_protocol.problem import Problem
from pit_protocol.transport.x509_fields import read_fields

PIN = re.compile(r"sha256:[0-9a-f]{64}")
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)


def list_certificates(text: str) -> tuple[str, ...]:
    """The PEM certificates in a text, in order."""
    return tuple(_BLOCK.findall(text))


def pin_of(certificate: str) -> str:
    """The fingerprint of a certificate's public key, which a renewed certificate keeps; raises a Problem."""
    return _pin(_to_der(certificate))


def has_pin(certificate: str, pin: str) -> bool:
    """Whether a pin is the certificate's; those of pit 0.1 were of the whole certificate."""
    return pin in (pin_of(certificate), old_pin_of(certificate))


def old_pin_of(certificate: str) -> str:
    """The pin that pit 0.1 gave this certificate, and stored tokens under."""
    return _hash(_to_der(certificate))


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
    """Accepts a server whose certificate has one of these keys, under any name and from any issuer.

    The certificate must be within its validity period.
    """

    pins: frozenset[str]
    _unchecked: ssl.SSLContext  # OpenSSL can check certificates and issuers, but not keys

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        wrapped = self._unchecked.wrap_socket(*args, **options)
        try:
            check_pin(self, wrapped)
        except ssl.SSLError:
            wrapped.close()
            raise
        return wrapped

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Used by asyncio; the caller must call `check_pin` before it sends anything."""
        return self._unchecked.wrap_bio(*args, **options)


def check_pin(context: PinnedContext, connection: ssl.SSLSocket | ssl.SSLObject) -> None:
    """Raise an SSLError unless the server showed a valid certificate with one of the pinned keys."""
    shown = connection.getpeercert(binary_form=True) or b""
    try:
        fields = read_fields(shown)
    except ValueError:
        raise ssl.SSLCertVerificationError("it is not a certificate that pit can read") from None
    if _hash(fields.public_key) not in context.pins:
        raise ssl.SSLCertVerificationError("it is not the certificate that is known")
    now = datetime.now(UTC)
    if now > fields.not_after:
        raise ssl.SSLCertVerificationError("certificate has expired")
    if now < fields.not_before:
        raise ssl.SSLCertVerificationError("certificate is not yet valid")


def pinned_context(certificates: Iterable[str]) -> PinnedContext:
    """A context for heads that have the key of one of these certificates; a Problem for an invalid one."""
    context = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the key itself is checked
    context.pins = frozenset(map(pin_of, certificates))
    context._unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context._unchecked.check_hostname = False
    context._unchecked.verify_mode = ssl.CERT_NONE
    for each in (context, context._unchecked):
        each.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _to_der(certificate: str) -> bytes:
    try:
        return ssl.PEM_cert_to_DER_cert(certificate)
    except (ValueError, binascii.Error):
        raise Problem("bad_certificate", "that is not a certificate") from None


def _pin(certificate: bytes) -> str:
    try:
        return _hash(read_fields(certificate).public_key)
    except ValueError:
        raise Problem("bad_certificate", "that is not a certificate") from None


def _hash(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
