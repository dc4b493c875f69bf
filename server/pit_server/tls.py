"""The head's TLS: its certificate, its URL and its fingerprint."""

import fcntl
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from pit_protocol.atomic_file import write_atomic
from pit_protocol.hosts import is_loopback
from pit_protocol.problem import Problem
from pit_protocol.transport.pinning import list_certificates, pin_of
from pit_protocol.transport.x509_fields import read_fields
from pit_server.settings import Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CERTIFICATE = "certificate.pem"
KEY = "key.pem"
DAYS = 3650
RENEW_DAYS = 90  # before it expires, a start of the head renews the certificate
DEFAULT_PORT = 8000  # gunicorn's, for a `bind` without one
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104
LONGEST_NAME = 64  # of a certificate's subject
LONGEST_HOST = 128  # characters of an alternative name

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

log = logging.getLogger(__name__)


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
        f"restore both from a backup; or remove both, {files.certificate.name} and {files.key.name}, and the "
        "next start makes others, and every client and node must connect again",
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
        if files.certificate.exists() and not (why := _why_reissue(settings, files)):
            return
        key = _load_key(files.key)
        if files.certificate.exists():
            if key is None or not _is_own(files.certificate, key):
                return  # the check of both says what is wrong; a foreign certificate is not ours to replace
            log.info("the certificate is made again with the same key: %s", why)
        elif key is None:
            key = _make_key()
            write_atomic(files.key, _encode_key(key), sync=True)
        # The certificate last: if it exists, its key does.
        write_atomic(files.certificate, _sign(settings, key), mode=0o644, sync=True)
        os.fsync(directory)
    finally:
        os.close(directory)


def _why_reissue(settings: Settings, files: Files) -> str:
    """Why the certificate no longer fits the settings or the date; empty if it does."""
    try:
        der = ssl.PEM_cert_to_DER_cert(_first_certificate(files.certificate))
        left = read_fields(der).not_after - datetime.now(UTC)
    except (OSError, ValueError, IndexError):
        return ""
    if left < timedelta(days=RENEW_DAYS):
        return f"it expires in {left.days} days"
    names, addresses = _sort_hosts(_list_set(settings))
    # As the certificate has them among its alternative names: a tag, the length, the text or the bytes.
    wanted = {name: b"\x82" + bytes([len(name)]) + name.encode() for name in names}
    wanted |= {str(each): b"\x87" + bytes([len(each.packed)]) + each.packed for each in addresses}
    missing = [shown for shown, entry in wanted.items() if entry not in der]
    return f"it did not have {', '.join(missing)}" if missing else ""


def _is_own(file: Path, key: "EllipticCurvePrivateKey") -> bool:
    """Whether the head made this certificate: it signed itself, with this key."""
    from cryptography import x509

    try:
        (certificate,) = x509.load_pem_x509_certificates(file.read_bytes())
    except ValueError:
        return False
    return certificate.issuer == certificate.subject and certificate.public_key() == key.public_key()


def _make_key() -> "EllipticCurvePrivateKey":
    # Imported here, because it is slow and seldom needed.
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _load_key(file: Path) -> "EllipticCurvePrivateKey | None":
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return None
    return key if isinstance(key, EllipticCurvePrivateKey) else None


def _encode_key(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _sign(settings: Settings, key: "EllipticCurvePrivateKey") -> bytes:
    """A certificate of the key, for all names and addresses of the head."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.now(UTC)
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
    return certificate.public_bytes(serialization.Encoding.PEM)


def _alternatives(settings: Settings) -> tuple[list[str], list[IpAddress]]:
    """The names and addresses of the head, for its certificate."""
    own = [socket.gethostname(), fqdn(), "localhost", "127.0.0.1"]
    return _sort_hosts([*own, *_list_set(settings)])


def _list_set(settings: Settings) -> list[str]:
    """The hosts in the settings `url`, `bind` and `hosts`."""
    bound = "" if settings.bind.startswith("unix:") else parse_bind(settings.bind)[0]
    return [urlsplit(settings.url).hostname or "", bound, *settings.extra_hosts]


def _sort_hosts(hosts: Iterable[str]) -> tuple[list[str], list[IpAddress]]:
    """Names and addresses, each once; without what a certificate cannot have."""
    names: list[str] = []
    addresses: list[IpAddress] = []
    for host in hosts:
        try:
            addresses.append(ipaddress.ip_address(host.strip("[]")))
        except ValueError:
            if host.isascii() and 0 < len(host) < LONGEST_HOST and not set(host) & set("[]:"):
                names.append(host.lower())
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
