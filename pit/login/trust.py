"""Trust on first use: connecting to a head by URL, or by a file from its admin."""

from pathlib import Path
from urllib.parse import urlsplit

from pit.connect.connect_files import get_home_file, read_connect_file
from pit.connect.connection import Connection
from pit.connect.head_address import Address, parse_url
from pit.head.client import Head
from pit.head.http_session import CONNECT_S, Insecure, Unreachable
from pit.login.dialog import check_head
from pit.ui import output, prompt
from pit_protocol.problem import Problem
from pit_protocol.transport.pinning import PIN, fetch_certificate, has_pin, pin_of

HTTPS_PORT = 443
# OpenSSL's numbers for a certificate that is valid but signed by no known CA. An expired one, or
# one for another name, is never accepted, not even after a question.
UNKNOWN_ISSUER = (18, 19, 20, 21)


def establish_trust(place: str, pin: str | None) -> Address:
    """The address for a URL or FILE, with the certificate to pin if one is needed."""
    if "://" not in place:
        if not Path(place).is_file():
            raise Problem("bad_place", f"{place!r} is neither a URL nor a file", f"write https://{place}")
        if pin:
            raise Problem("pin_and_file", f"{place} has its certificates", "leave --pin away, or give a URL")
        return _checked(read_connect_file(Path(place)).address)
    url = parse_url(place)
    if pin:
        return _pinned(url, pin)
    if known := _get_known(url):
        return _known_still(known)
    try:
        return _checked(Address(url))
    except Insecure as problem:
        if problem.verify_code not in UNKNOWN_ISSUER:
            raise
    return _introduced(url)


def _pinned(url: str, pin: str) -> Address:
    if not PIN.fullmatch(pin):
        raise Problem("bad_pin", f"{pin!r} is not a pin", "write sha256: and 64 hexadecimal digits")
    certificate = _fetch(url)
    if not has_pin(certificate, pin):
        raise _another(url, f"shows {pin_of(certificate)}, not {pin}")
    return _checked(Address(url, (certificate,)))


def _get_known(url: str) -> Address | None:
    """The address that the home's file has for the URL, if it has certificates."""
    try:
        file = get_home_file()
    except Problem:
        return None  # a broken file is about to be replaced
    return file.address if file and file.address.url == url and file.address.certificates else None


def _known_still(known: Address) -> Address:
    try:
        return _checked(known)
    except Insecure as problem:
        raise _another(known.url, f"does not prove to have {' or '.join(known.pins)}") from problem


def _introduced(url: str) -> Address:
    """Ask the user whether a certificate of unknown origin is the head's."""
    certificate = _fetch(url)
    # Before asking: an expired certificate, or one without its key, is never accepted.
    address = _checked(Address(url, (certificate,)))
    pin = pin_of(certificate)
    if not prompt.is_interactive():
        raise Problem(
            "unknown_certificate",
            f"the certificate of {url} is signed by no known CA; it is {pin}",
            f"if the head's admin says the same: `pit connect {url} --pin {pin}`",
        )
    output.note(
        f"the certificate of {url} is signed by no known CA; its fingerprint is\n  {pin}",
        "the head prints it on its console, and `pit show connect --json` where pit is connected",
    )
    if not prompt.confirm("Is this the head's fingerprint?"):
        raise Problem("unknown_certificate", f"{url} is not connected", "ask the head's admin for the pin")
    return address


def _fetch(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise Problem(
            "plain_http", f"{url} is plain http, which has no certificate", "write https, or no --pin"
        )
    try:
        return fetch_certificate(parts.hostname or "", parts.port or HTTPS_PORT, CONNECT_S)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Unreachable("unreachable", f"no certificate from {url}: {why}", "check the address") from error


def _checked(address: Address) -> Address:
    with Head(Connection(address.url, certificates=address.certificates)) as head:
        check_head(head)
    return address


def _another(url: str, what: str) -> Problem:
    return Problem(
        "other_certificate",
        f"the head at {url} {what}",
        "someone may be in between; if the head has a new certificate, its admin knows the new pin "
        f"for `pit connect {url} --pin …`",
    )
