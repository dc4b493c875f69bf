"""The head's TLS: its certificate, made once and kept, and how it is reached and known."""

import fcntl
import ipaddress
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pit_protocol.pinning import list_certificates, pin_of
from pit_protocol.problem import Problem
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
    """Whether this head itself speaks TLS; a wrong setting raises a Problem."""
    if settings.tls not in ("auto", "on", "off"):
        raise Problem("bad_settings", f"tls must be auto, on or off, not {settings.tls!r}")
    return settings.tls == "on" or (settings.tls == "auto" and not is_on_loopback(settings))


def is_on_loopback(settings: Settings) -> bool:
    """Whether only this machine reaches what this head listens on."""
    if settings.bind.startswith("unix:"):
        return True
    host, _ = parse_bind(settings.bind)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_url(settings: Settings) -> str:
    """By which clients and workers reach this head; a wrong setting raises a Problem."""
    if settings.url:
        return _check_url(settings.url.rstrip("/"))
    if settings.bind.startswith("unix:"):
        raise Problem(
            "bad_settings", f"{settings.bind} is reached by a proxy alone", "set `url` to the proxy's"
        )
    host, port = parse_bind(settings.bind)
    if uses_tls(settings):
        return f"https://{_in_url(_full_name() if host in WILDCARDS else host)}:{port}"
    return f"http://{_in_url('127.0.0.1' if host in WILDCARDS else host)}:{port}"


def find_files(settings: Settings) -> Files:
    """The certificate and the key to serve with; made where none are set and none were made before."""
    if bool(settings.certificate) != bool(settings.certificate_key):
        lacking = "certificate_key" if settings.certificate else "certificate"
        raise Problem(
            "bad_settings", f"{lacking} is not set", "set both, certificate and certificate_key, or none"
        )
    if settings.certificate:
        files = Files(Path(settings.certificate), Path(settings.certificate_key))
        _check_pair(files, "settings certificate and certificate_key name two files in PEM format")
        return files
    files = Files(settings.home / CERTIFICATE, settings.home / KEY)
    _make_once(settings, files)
    _check_pair(
        files,
        f"bring both back from a backup; or remove {files.certificate}, and the next start makes another, "
        "with which every client and node has to connect anew",
    )
    return files


def get_pin(settings: Settings) -> str | None:
    """What the certificate of this head is known by; None if it does not speak TLS itself."""
    if not uses_tls(settings):
        return None
    return pin_of(_first_certificate(find_files(settings).certificate))


def connect_text(settings: Settings) -> str:
    """What a `.pitconnect.txt` holds: the URL, and the certificate if the head made it itself."""
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
            "bad_settings", f"url is {url!r}, which is no URL", "it looks like https://head.example.org:7478"
        )
    return url


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _full_name() -> str:
    name = socket.getfqdn()
    # A machine whose /etc/hosts calls it localhost first is known to others by its own name.
    return socket.gethostname() if name.startswith("localhost") else name


def _make_once(settings: Settings, files: Files) -> None:
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(settings.home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # another start may be at it, too
        if files.certificate.exists():
            return
        certificate, key = _make_pair(settings, datetime.now(UTC))
        # The certificate last: where it is, its key is.
        _write_whole(files.key, key, 0o600)
        _write_whole(files.certificate, certificate, 0o644)
        os.fsync(directory)
    finally:
        os.close(directory)


def _make_pair(settings: Settings, now: datetime) -> tuple[bytes, bytes]:
    # Here, for it takes its time and is needed once in ten years.
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
    """The names and the addresses by which the head is called."""
    host = "" if settings.bind.startswith("unix:") else parse_bind(settings.bind)[0]
    called = [socket.gethostname(), _full_name(), "localhost", urlsplit(settings.url).hostname, host]
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
            lacks = "cannot be read" if file.exists() else "does not exist"
            raise Problem("bad_certificate", f"{file} {lacks}", hint)
    try:
        # Without a password it would ask on the console for that of a key that has one.
        context.load_cert_chain(*files, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{files.key} is not the key of {files.certificate}"
        else:
            text = f"{files.certificate} and {files.key} are not a certificate and its key without password"
        raise Problem("bad_certificate", text, hint) from error


def _first_certificate(file: Path) -> str:
    return list_certificates(file.read_text(errors="replace"))[0]


def _write_whole(file: Path, content: bytes, mode: int) -> None:
    partial = file.with_name(file.name + ".part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(descriptor)
    partial.replace(file)
