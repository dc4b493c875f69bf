"""Which head is used here, and which token it gets.

A foreign project may bring a `.pitconnect.txt` that names a head of its author's choice. Such a head
gets nothing, not even a question for a password, before the user has said `pit trust`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from pit.connect.connect_files import CONNECT_FILE, ConnectFile, get_home_file, get_project_file
from pit.connect.head_address import Address
from pit.connect.token_store import Account, get_account, is_token, user_file
from pit.local import local_cluster
from pit.text_files import read_text
from pit_protocol.problem import Problem


@dataclass(frozen=True)
class Connection:
    """A head's address, the file that named it, and the token for exactly that head."""

    url: str
    source: Path | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    is_embedded: bool = False
    certificates: tuple[str, ...] = ()

    @property
    def address(self) -> Address:
        return Address(self.url, self.certificates)


def find_connection(start: Path | None = None) -> Connection:
    """The head for a directory, and its token if there is one.

    Raises a Problem if no head is known, or only one that is not trusted.
    """
    project, home = get_project_file(start or Path.cwd()), get_home_file()
    file = project or home
    if file is None:
        return _embedded_connection()
    if file.address.url == local_cluster.get_url() and not file.address.certificates:
        return _embedded_connection(file.path)
    if file is project and not is_trusted(project, home):
        raise _untrusted(project)
    return connect_to(file.address, file.path)


def connect_to(address: Address, source: Path | None = None) -> Connection:
    """A connection with the stored token for exactly that head, if there is one."""
    account = find_account(address)
    token, token_file = (account.token, user_file()) if account else (None, None)
    return Connection(address.url, source, token, token_file, certificates=address.certificates)


def find_account(address: Address) -> Account | None:
    return get_account(address.keys) or (get_account(address.old_keys) if address.old_keys else None)


def is_trusted(project: ConnectFile, home: ConnectFile | None) -> bool:
    """Whether the user knows the head of a project: by an account, or as the home's head."""
    if find_account(project.address):
        return True
    return home is not None and set(project.address.keys) <= set(home.address.keys)


def _untrusted(project: ConnectFile) -> Problem:
    return Problem(
        "untrusted_project",
        f"{project.path} names a head that is not trusted yet: {project.address}",
        "if you trust it, `pit trust` logs in there; nothing was sent to it",
    )


def _embedded_connection(source: Path | None = None) -> Connection:
    url, state = local_cluster.get_url(), local_cluster.State.find()
    if url is None:
        raise Problem(
            "no_head",
            f"no head is known: there is no {CONNECT_FILE} in this project or in {Path.home()}",
            "`pit connect URL` connects to one, `pit up` starts one on this machine",
        )
    # Another program may use the port by now; it must not get the token.
    if not state.head.is_alive():
        raise Problem(
            "embedded_down",
            f"the embedded head at {url} (from {source or state.connect_file}) is not running",
            "`pit up` starts it",
        )
    if account := get_account((url,)):
        return Connection(url, source or state.connect_file, account.token, user_file())
    token = (read_text(state.user_token) or "").strip()
    if not is_token(token):
        raise Problem("no_token", f"{state.user_token} holds no token", "`pit up` makes a new one")
    return Connection(url, source or state.connect_file, token, state.user_token, is_embedded=True)
