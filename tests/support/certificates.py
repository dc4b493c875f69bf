"""Certificates for tests, good ones and bad ones."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pit_protocol.transport.pinning import pin_of


@dataclass(frozen=True)
class Certificate:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode().strip()

    @property
    def pin(self) -> str:
        return pin_of(self.pem)

    @property
    def key_pem(self) -> str:
        plain = serialization.NoEncryption()
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(pem, pkcs8, plain).decode()

    def serving(self, folder: Path) -> ssl.SSLContext:
        """What a server needs to show it."""
        path = folder / f"{self.certificate.serial_number}.pem"
        path.write_text(f"{self.pem}\n{self.key_pem}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def a_certificate(
    name: str = "127.0.0.1",
    *,
    common_name: str = "",
    days: int = 1,
    is_ca: bool = False,
    signed_by: Certificate | None = None,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Certificate:
    """A certificate for a name or address, signed by itself unless told; with negative `days`, expired."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or name)])
    now = datetime.now(UTC)
    issuer_key = signed_by.key if signed_by else key
    # From 3.13 on, Python demands both key identifiers of what a CA signed, and the usage of a CA's key.
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by.certificate.subject if signed_by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general(name)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .add_extension(_usage(is_ca=is_ca), critical=True)
    )
    return Certificate(builder.sign(issuer_key, hashes.SHA256()), key)


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
