"""Where the head is and which token is for it.

A token belongs to the one URL that it was stored for and is never sent to another: a foreign
project may bring a `.pitconnect.txt` that names a head of its author's choice.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pit import embedded
from pit.files import read_text, write_whole
from pit_protocol.problem import Problem

CONNECT_FILE = ".pitconnect.txt"
USER_FILE = ".pituser.txt"
_HOST = re.compile(r"[a-z0-9._:-]+")
_TOKEN = re.compile(r"[!-~]{1,512}")


@dataclass(frozen=True)
class Connection:
    """A head's address, the file that named it, and the token for exactly that address."""

    url: str
    source: Path | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    is_embedded: bool = False


def find_connection(start: Path | None = None) -> Connection:
    """The head for a project, with its token; raises a Problem if either is missing."""
    source = _find_connect_file(start or Path.cwd())
    if source is None:
        return _embedded_connection()
    url = _read_url(source)
    account = get_account(url)
    if account:
        return Connection(url, source, account.token, user_file())
    if url == embedded.get_url():
        return _embedded_connection(source)
    raise Problem(
        "no_token",
        f"there is no token for {url}, which {source} names as the head",
        f"if you trust that head, `pit connect {url}` asks for a token and keeps it",
    )


@dataclass(frozen=True)
class Account:
    url: str
    user: str
    token: str = field(repr=False)


def get_account(url: str) -> Account | None:
    return next((account for account in _list_accounts() if account.url == url), None)


def keep_account(account: Account) -> None:
    """Store a token for its head, in place of an older one for the same head."""
    others = [known for known in _list_accounts() if known.url != account.url]
    lines = [f"{known.url} {known.user} {known.token}\n" for known in (*others, account)]
    write_whole(user_file(), "".join(lines), mode=0o600)


def keep_url(url: str) -> Path:
    """Make `url` the head that is used outside of projects with a file of their own."""
    path = Path.home() / CONNECT_FILE
    write_whole(path, f"{url}\n", mode=0o644)
    return path


def user_file() -> Path:
    return Path.home() / USER_FILE


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


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def find_project_file(start: Path) -> Path | None:
    """The connection file of the project around `start`: on the way up to the git top, or to /."""
    for directory in (start, *start.parents):
        if (directory / CONNECT_FILE).is_file():
            return directory / CONNECT_FILE
        if (directory / ".git").exists():
            break
    return None


def _find_connect_file(start: Path) -> Path | None:
    home = Path.home() / CONNECT_FILE
    return find_project_file(start) or (home if home.is_file() else None)


def _read_url(source: Path) -> str:
    first = next(iter((read_text(source) or "").splitlines()), "")
    try:
        return parse_url(first)
    except Problem as problem:
        raise Problem(
            problem.code, f"the first line of {source}: {problem.message}", problem.hint
        ) from problem


def _embedded_connection(source: Path | None = None) -> Connection:
    url, state = embedded.get_url(), embedded.State.find()
    if url is None:
        raise Problem(
            "no_head",
            f"no head is known: there is no {CONNECT_FILE} in this project or in {Path.home()}",
            "`pit connect URL` makes one known, `pit up` starts one on this machine",
        )
    # Another program may have the port by now; it must not get the token.
    if not state.head.is_alive():
        raise Problem(
            "embedded_down",
            f"the embedded head at {url} (from {source or state.connect_file}) is not running",
            "`pit up` starts it",
        )
    token = (read_text(state.user_token) or "").strip()
    if not is_token(token):
        raise Problem("no_token", f"{state.user_token} holds no token", "`pit up` makes a new one")
    return Connection(url, source or state.connect_file, token, state.user_token, is_embedded=True)


def _list_accounts() -> list[Account]:
    lines = (line.split() for line in (read_text(user_file()) or "").splitlines())
    return [Account(*words) for words in lines if len(words) == 3 and is_token(words[2])]
