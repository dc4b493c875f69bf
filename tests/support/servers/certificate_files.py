"""Certificates in files, as a worker and its head have them."""

from dataclasses import dataclass
from pathlib import Path

from tests.support import certificates


@dataclass(frozen=True)
class Certificate:
    file: Path
    key_file: Path
    made: certificates.Certificate

    @property
    def pin(self) -> str:
        return self.made.pin


def make_certificate(
    folder: Path, name: str, *, days: int = 1, signer: Certificate | None = None, is_ca: bool = False
) -> Certificate:
    """A certificate for 127.0.0.1; with negative `days` it has expired so long ago."""
    signed_by = signer.made if signer else None
    made = certificates.a_certificate(common_name=name, days=days, is_ca=is_ca, signed_by=signed_by)
    file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    file.write_text(made.pem + "\n")
    key_file.write_text(made.key_pem)
    return Certificate(file, key_file, made)
