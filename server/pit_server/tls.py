"""The head's TLS: its certificate, its URL and its fingerprint."""

import fcntl
import ipaddress
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pit_protocol.atomic_file import write_atomic
from pit_protocol.hosts import is_loopback
from pit_protocol.problem import Problem
from pit_protocol.transport.pinning import list_certificates, pin_of
from pit_server.settings import Settings

CERTIFICATE = "certificate.pem"
KEY = "key.pem"
DAYS = 3650
DEFAULT_PORT = 8000  # gunicorn's, for a `bind` without one
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104
LONGEST_NAME = 64  # of a certificate's subject


class Files(NamedTuple):
    certificate: Path
    key: Path


def uses_tls(settings: Settings) -> bool:
    """Whether the head itself serves TLS; a wrong setting raises a Problem."""
    if settings.tls not in ("auto", "on", "off"):
        raise Problem("bad_settings", f"tls must be auto, on or off, not {settings.tls!r}")
    return settings.tls == "on" or (settings.tls == "auto" and not is_on_loopback(settings))


def is_on_loopback(settings: Settings) -> bool:
    """Whether the head listens on loopback only."""
    if settings.bind.startswith("unix:"):
        return True
    return is_loopback(parse_bind(settings.bind)[0])


def find_url(settings: Settings) -> str:
    """The URL for clients and workers; a wrong setting raises a Problem."""
    if settings.url:
        return _check_url(settings.url.rstrip("/"))
    if settings.bind.startswith("unix:"):
        raise Problem(
            "bad_settings", f"{settings.bind} can only be reached through a proxy", "set `url` to the proxy's"
        )
    host, port = parse_bind(settings.bind)
    if uses_tls(settings):
        return f"https://{_in_url(fqdn() if host in WILDCARDS else host)}:{port}"
    return f"http://{_in_url('127.0.0.1' if host in WILDCARDS else host)}:{port}"


def find_files(settings: Settings) -> Files:
    """The certificate and key to serve with; made if none are set and none exist."""
    if bool(settings.certificate) != bool(settings.certificate_key):
        missing = "certificate_key" if settings.certificate else "certificate"
        raise Problem(
            "bad_settings", f"{missing} is not set", "set both, certificate and certificate_key, or none"
        )
    if settings.certificate:
        files = Files(Path(settings.certificate), Path(settings.certificate_key))
        _check_pair(files, "settings certificate and certificate_key name two files in PEM format")
        return files
    files = Files(settings.home / CERTIFICATE, settings.home / KEY)
    _make_once(settings, files)
    _check_pair(
        files,
        f"restore both from a backup; or remove {files.certificate}, and the next start makes another, "
        "and every client and node must connect again",
    )
    return files


def get_pin(settings: Settings) -> str | None:
    """The fingerprint of the head's certificate; None if it does not serve TLS itself."""
    if not uses_tls(settings):
        return None
    return pin_of(_first_certificate(find_files(settings).certificate))


def connect_text(settings: Settings) -> str:
    """The text of a `.pitconnect.txt`: the URL, and the certificate if the head made it."""
    lines = [find_url(settings)]
    if uses_tls(settings) and not settings.certificate:
        lines.append(_first_certificate(find_files(settings).certificate))
    return "\n".join(lines) + "\n"


def parse_bind(bind: str) -> tuple[str, int]:
    """Host and port to listen on; raises a Problem."""
    rest = bind.removeprefix("tcp://")
    host, port = rest, str(DEFAULT_PORT)
    if "]" in rest:
        host, _, port = rest.removeprefix("[").partition("]")
        port = port.removeprefix(":") or str(DEFAULT_PORT)
    elif ":" in rest:
        host, _, port = rest.partition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise Problem(
            "bad_settings", f"bind is {bind!r}, without a port number", "it looks like 0.0.0.0:7478"
        )
    return host.lower(), int(port)


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        named = None
    if not named:
        raise Problem(
            "bad_settings",
            f"url is {url!r}, which is not a URL",
            "it looks like https://head.example.org:7478",
        )
    return url


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def fqdn() -> str:
    """The machine's name with its domain; asks DNS, which may be slow."""
    name = socket.getfqdn()
    # Where /etc/hosts lists localhost first, use the host name instead.
    return socket.gethostname() if name.startswith("localhost") else name


def _make_once(settings: Settings, files: Files) -> None:
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(settings.home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # another head may start at the same time
        if files.certificate.exists():
            return
        certificate, key = _make_pair(settings, datetime.now(UTC))
        # The certificate last: if it exists, its key does.
        write_atomic(files.key, key, sync=True)
        write_atomic(files.certificate, certificate, mode=0o644, sync=True)
        os.fsync(directory)
    finally:
        os.close(directory)


def _make_pair(settings: Settings, now: datetime) -> tuple[bytes, bytes]:
    # Imported here, because it is slow and needed once in ten years.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    common_name = socket.gethostname()[:LONGEST_NAME] or "pit"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    names, addresses = _alternatives(settings)
    alternatives = [*map(x509.DNSName, names), *map(x509.IPAddress, addresses)]
    certificate = (
        x509.CertificateBuilder(issuer_name=subject, subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _alternatives(
    settings: Settings,
) -> tuple[list[str], list[ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    """The names and addresses of the head, for its certificate."""
    host = "" if settings.bind.startswith("unix:") else parse_bind(settings.bind)[0]
    called = [socket.gethostname(), fqdn(), "localhost", urlsplit(settings.url).hostname, host]
    names: list[str] = []
    addresses = [ipaddress.ip_address("127.0.0.1")]
    for name in called:
        try:
            addresses.append(ipaddress.ip_address(name or ""))
        except ValueError:
            if name and name.isascii():
                names.append(name)
    return list(dict.fromkeys(names)), list(dict.fromkeys(a for a in addresses if not a.is_unspecified))


def _check_pair(files: Files, hint: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for file in files:
        if not os.access(file, os.R_OK):
            fault = "cannot be read" if file.exists() else "does not exist"
            raise Problem("bad_certificate", f"{file} {fault}", hint)
    try:
        # Without this, OpenSSL asks for the password of an encrypted key on the console.
        context.load_cert_chain(*files, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{files.key} is not the key of {files.certificate}"
        else:
            text = f"{files.certificate} and {files.key} are not a certificate and its key without password"
        raise Problem("bad_certificate", text, hint) from error


def _first_certificate(file: Path) -> str:
    return list_certificates(file.read_text(errors="replace"))[0]
