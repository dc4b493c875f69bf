"""Meeting a head for the first time, by URL or by the file that an admin handed out."""

from pathlib import Path
from urllib.parse import urlsplit

from pit import output, terminal
from pit.address import Address, parse_url
from pit.connect_files import get_home_file, read_connect_file
from pit.connection import Connection
from pit.dialogue import check_head
from pit.head import CONNECT_S, Head, Insecure, Unreachable
from pit_protocol.pinning import PIN, fetch_certificate, pin_of
from pit_protocol.problem import Problem

HTTPS_PORT = 443
# OpenSSL's numbers for a certificate that only lacks somebody who vouches for it. An expired one, or
# one for another name, is never a matter of asking.
NOBODY_VOUCHES = (18, 19, 20, 21)


def meet(place: str, pin: str | None) -> Address:
    """The address that a URL or FILE leads to, with the certificate to pin if it takes one."""
    if "://" not in place:
        if pin:
            raise Problem("pin_and_file", f"{place} has its certificates", "leave --pin away, or give a URL")
        if not Path(place).is_file():
            raise Problem("bad_place", f"{place!r} is neither a URL nor a file", f"write https://{place}")
        return _checked(read_connect_file(Path(place)).address)
    url = parse_url(place)
    if pin:
        return _pinned(url, pin)
    if known := _get_known(url):
        return _known_still(known)
    try:
        return _checked(Address(url))
    except Insecure as problem:
        if problem.verify_code not in NOBODY_VOUCHES:
            raise
    return _introduced(url)


def _pinned(url: str, pin: str) -> Address:
    if not PIN.fullmatch(pin):
        raise Problem("bad_pin", f"{pin!r} is no pin", "write sha256: and 64 hexadecimal digits")
    certificate = _fetch(url)
    if pin_of(certificate) != pin:
        raise _another(url, f"shows {pin_of(certificate)}, not {pin}")
    return _checked(Address(url, (certificate,)))


def _get_known(url: str) -> Address | None:
    """The address that the home's file has for the URL, if with certificates."""
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
    """Ask whether a certificate is the head's that nobody vouches for."""
    certificate = _fetch(url)
    # Before asking: an expired certificate, or one without its key, is never a matter of asking.
    address = _checked(Address(url, (certificate,)))
    pin = pin_of(certificate)
    if not terminal.is_interactive():
        raise Problem(
            "unknown_certificate",
            f"nobody vouches for the certificate of {url}, which is {pin}",
            f"if the head's admin says the same: `pit connect {url} --pin {pin}`",
        )
    output.tell(
        f"nobody vouches for the certificate of {url}; its fingerprint is\n  {pin}",
        "the head prints it on its console, and `pit show connect --json` where pit is connected",
    )
    if not terminal.agrees("Is this the head's fingerprint?"):
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
