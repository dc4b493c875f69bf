"""`~/.pituser.txt`: who the user is on which head, and the tokens that prove it.

A line is `KEY USER TOKEN`; the key is the pin of the head's certificate, or its URL where it has none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pit.text_files import check_private, read_text
from pit_protocol.atomic_file import write_atomic

USER_FILE = ".pituser.txt"
_TOKEN = re.compile(r"[!-~]{1,512}")


@dataclass(frozen=True)
class Account:
    user: str
    token: str = field(repr=False)


def get_account(keys: Iterable[str]) -> Account | None:
    """The account that is stored under each of the keys.

    Were one enough, a file with a known certificate and a stranger's would lead the token to the stranger.
    """
    check_private(user_file())
    known = dict(_list_lines())
    found = {known.get(key) for key in keys}
    return found.pop() if len(found) == 1 else None


def keep_account(keys: Iterable[str], account: Account) -> None:
    """Store a token for a head, in place of an older one for the same head."""
    new = tuple(keys)
    others = [line for line in _list_lines() if line[0] not in new]
    _write([*others, *((key, account) for key in new)])


def drop_account(account: Account) -> None:
    """Forget a token, under whatever keys it is stored."""
    _write([line for line in _list_lines() if line[1] != account])


def user_file() -> Path:
    return Path.home() / USER_FILE


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def _list_lines() -> list[tuple[str, Account]]:
    lines = (line.split() for line in (read_text(user_file()) or "").splitlines())
    return [
        (words[0], Account(words[1], words[2])) for words in lines if len(words) == 3 and is_token(words[2])
    ]


def _write(lines: Iterable[tuple[str, Account]]) -> None:
    text = "".join(f"{key} {account.user} {account.token}\n" for key, account in lines)
    write_atomic(user_file(), text, sync=True)
