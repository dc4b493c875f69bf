"""A remote as a value: its URL parsed as git does, and a key that is equal for equivalent URLs."""

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pit_protocol.problem import Problem

SCP_FORM = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])"
    r":(?!//)(?P<path>[^:]+)"
)
HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*)|[0-9a-f:.]+")  # only what git and this parser read alike
HELPER = re.compile(r"[A-Za-z0-9+.-]*::")  # such as `ext::`, which runs a program
MAX_REMOTE = 2_000
PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}


@dataclass(frozen=True)
class Remote:
    text: str  # as in the user's project, and as passed to git
    protocol: str
    host: str = ""  # lower case; empty: a path
    port: int | None = None  # None: the protocol's own
    path: str = ""
    user: str = ""

    @property
    def key(self) -> str:
        """Equal for all URLs of one remote, whatever their protocol."""
        place = self.host if self.port in (None, PORTS.get(self.protocol)) else f"{self.host}:{self.port}"
        path = self.path.strip("/").removesuffix(".git").rstrip("/")
        return hashlib.sha256(f"{place}/{path}".encode()).hexdigest()[:32]

    @property
    def number(self) -> int:
        return self.port or PORTS.get(self.protocol, 0)

    @property
    def place(self) -> str:
        """The key of credentials: the host, and the port unless it is the default of https or ssh."""
        usual = self.protocol in ("https", "ssh") and self.number == PORTS[self.protocol]
        return self.host if usual else f"{self.host}:{self.number}"


def parse(text: str) -> Remote:
    """Parse a remote; one that contains a secret, or that git could take for an option, raises a Problem."""
    if not text or text[0] == "-" or HELPER.match(text) or not text.isprintable() or len(text) > MAX_REMOTE:
        raise _bad_remote()
    if "://" in text:
        return _parse_url(text)
    if match := SCP_FORM.fullmatch(text):
        host = match["host"].strip("[]").lower()
        if match["path"].startswith("-"):
            raise _bad_remote()
        return Remote(text, "ssh", host, None, match["path"], match["user"] or "")
    return Remote(text, "file", path=text)


def _parse_url(text: str) -> Remote:
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _bad_remote() from None
    protocol = parts.scheme.lower()
    if protocol == "file":
        return Remote(text, protocol, path=unquote(text.partition("://")[2]))
    if not HOST.fullmatch(host) or parts.netloc.startswith("-") or parts.netloc.count("@") > 1:
        raise _bad_remote()
    if (parts.username or "").startswith("-") or parts.path.startswith("/-") or parts.fragment:
        raise _bad_remote()
    if parts.password or parts.query or (parts.username and protocol in ("http", "https")):
        # The message leaves the URL out, because logs must not contain the secret.
        raise Problem(
            "secret_in_remote",
            "the remote's URL contains a user name, a password or a query",
            "`git remote set-url` to one without; `pit set me git.HOST=TOKEN` lets the head in",
            status=422,
        )
    return Remote(text, protocol, host, port, parts.path, parts.username or "")


def _bad_remote() -> Problem:
    return Problem(
        "bad_remote",
        "the remote's URL is not valid",
        "`git remote -v` shows it",
        status=422,
    )
