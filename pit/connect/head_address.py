"""Where a head is, and which certificates prove that it is the one: what a `.pitconnect.txt` says."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from pit_protocol.hosts import is_loopback
from pit_protocol.problem import Problem
from pit_protocol.transport.pinning import list_certificates, old_pin_of, pin_of, pinned_context

MOST_CERTIFICATES = 2  # the current one and its successor
_HOST = re.compile(r"[a-z0-9._:-]+")


@dataclass(frozen=True)
class Address:
    """A URL, and certificates of which the head must show one; without any, one that a CA signed."""

    url: str
    certificates: tuple[str, ...] = ()

    @property
    def pins(self) -> tuple[str, ...]:
        return tuple(map(pin_of, self.certificates))

    @property
    def keys(self) -> tuple[str, ...]:
        """What tokens for this head are stored under: its pins, else its URL."""
        return self.pins or (self.url,)

    @property
    def old_keys(self) -> tuple[str, ...]:
        """What pit 0.1 stored tokens under."""
        return tuple(map(old_pin_of, self.certificates))

    @property
    def text(self) -> str:
        """The `.pitconnect.txt` for this address."""
        return "\n".join((self.url, *self.certificates)) + "\n"

    def __str__(self) -> str:
        return f"{self.url} with {' or '.join(self.pins)}" if self.certificates else self.url


def parse_address(text: str) -> Address:
    """Read a `.pitconnect.txt`; raises a Problem, because a broken certificate must not count as none."""
    first, _, rest = text.partition("\n")
    url = parse_url(first)
    certificates = tuple(dict.fromkeys(list_certificates(rest)))
    for certificate in certificates:
        rest = rest.replace(certificate, "")
    if rest.strip() or len(certificates) > MOST_CERTIFICATES:
        raise Problem(
            "bad_connect_file",
            "after the URL come one or two certificates (PEM) and nothing else",
            "`pit show connect`, on a machine that is connected, prints the whole file",
        )
    if certificates:
        pinned_context(certificates)
        if not url.startswith("https:"):
            raise Problem("plain_http", f"a certificate needs https, and {url} is plain http", "write https")
    return Address(url, certificates)


def parse_url(text: str) -> str:
    """A head's URL in its one canonical form; plain http is for this machine only."""
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Problem("bad_url", f"{url!r} is no URL", "write https://HOST[:PORT]") from None
    host = (parts.hostname or "").lower()
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise Problem("bad_url", f"{url!r} is no URL of a head", "write https://HOST[:PORT]")
    if parts.username is not None or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", url):
        raise Problem(
            "bad_url", "a head's URL has a host, a port and a path only", "write https://HOST[:PORT]"
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise Problem(
            "plain_http",
            f"http://{host} would show your token to everyone on the way",
            f"write https://{host}; plain http is for heads on this machine only",
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}{parts.path}"
