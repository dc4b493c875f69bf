"""`pit connect`: make a head known, and the token for it."""

import sys
from pathlib import Path

import click

from pit import output
from pit.connection import (
    Account,
    Connection,
    find_project_file,
    get_account,
    is_token,
    keep_account,
    keep_url,
    parse_url,
    user_file,
)
from pit.exits import Exit
from pit.head import Head, Json
from pit.options import example, json_option
from pit.safe import safe
from pit_protocol.problem import Problem


@click.command("connect", epilog=example("pit connect https://pit.example.org"))
@click.argument("url")
@json_option
def command(url: str, as_json: bool) -> Exit:
    """Use the head at URL from now on.

    The address goes to ~/.pitconnect.txt, your token to ~/.pituser.txt (mode 0600). The head's admin
    makes a token by `pit-head add-user NAME`. Without a terminal it is read from stdin.
    """
    url = parse_url(url)
    _check_head(url)
    path = keep_url(url)
    me = _check_known_token(url) or _ask_token(url)
    if as_json:
        output.show_json(me)
        return Exit.DONE
    output.show(f"connected to {url} as {safe(me['name'])}")
    project_file = find_project_file(Path.cwd())
    if project_file and project_file != path:
        output.tell(f"in this project, {project_file} comes first")
    return Exit.DONE


def _check_head(url: str) -> None:
    with Head(Connection(url)) as head:
        if head.about().get("name") != "pit":
            raise Problem("not_a_head", f"{url} does not answer as a pit head does", "check the address")


def _check_known_token(url: str) -> Json | None:
    """Whose the stored token is; None if there is none that the head still accepts."""
    account = get_account(url)
    if account is None:
        return None
    try:
        return _me(url, account.token)
    except Problem as problem:
        if problem.status != 401:
            raise
    output.tell(f"the head does not accept the token in {user_file()} any more")
    return None


def _ask_token(url: str) -> Json:
    token = _read_token()
    if not is_token(token):
        raise Problem(
            "no_token", "that is no token", "`pit-head add-user NAME` on the head's machine prints one"
        )
    try:
        me = _me(url, token)
    except Problem as problem:
        if problem.status != 401:
            raise
        raise Problem(
            "bad_token",
            f"the head at {url} does not accept this token",
            "`pit-head add-user NAME` on the head's machine prints one",
            status=401,
        ) from problem
    name = str(me["name"])
    if len(name.split()) != 1:
        raise Problem("not_a_head", f"{url} gave no user name", "check the address")
    keep_account(Account(url, name, token))
    return me


def _read_token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    return sys.stdin.readline().strip()


def _me(url: str, token: str) -> Json:
    with Head(Connection(url, token=token, token_file=user_file())) as head:
        return head.me()
