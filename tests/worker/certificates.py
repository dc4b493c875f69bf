"""Certificates for heads of the tests: good, expired, signed by another."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pit_protocol.pinning import pin_of


@dataclass(frozen=True)
class Certificate:
    file: Path
    key_file: Path
    made: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pin(self) -> str:
        return pin_of(self.file.read_text())


def make_certificate(
    folder: Path, name: str, *, days: int = 1, signer: Certificate | None = None, is_ca: bool = False
) -> Certificate:
    """A certificate for 127.0.0.1; with negative `days` it has expired so long ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(
            issuer_name=signer.made.subject if signer else subject,
            subject_name=subject,
            public_key=key.public_key(),
        )
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(signer.key if signer else key, hashes.SHA256())
    )
    file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return Certificate(file, key_file, made, key)
