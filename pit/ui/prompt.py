"""Questions to the user; they go to stderr, because stdout is for results."""

import sys

import click

from pit.ui.output import note
from pit.ui.sanitize import sanitize
from pit_protocol.problem import Problem

MAX_PASSWORD_BYTES = 72  # bcrypt reads no more of a password


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(label: str) -> str:
    return str(click.prompt(sanitize(label), err=True)).strip()


def ask_optional(label: str) -> str:
    """Like `ask`, but the answer may be empty."""
    return str(click.prompt(sanitize(label), default="", show_default=False, err=True)).strip()


def ask_hidden(label: str, *, may_be_empty: bool = False) -> str:
    default = "" if may_be_empty else None
    return str(click.prompt(sanitize(label), hide_input=True, err=True, default=default, show_default=False))


def repeats(password: str) -> bool:
    """Whether the user can type the password once more."""
    return ask_hidden("Repeat the password") == password


def ask_new_password() -> str:
    """Ask for a new password twice, until the head can store it."""
    while True:
        password = str(
            click.prompt("New password", hide_input=True, confirmation_prompt="Repeat the password", err=True)
        )
        try:
            check_password(password)
        except Problem as problem:
            note(problem.message, problem.hint)
            continue
        return password


def read_token() -> str:
    """Read a token from stdin; on a terminal, ask for it without echo."""
    return ask_hidden("Token").strip() if is_interactive() else sys.stdin.readline().strip()


def confirm(question: str) -> bool:
    return click.confirm(sanitize(question), default=False, err=True)


def check_password(password: str) -> None:
    """Refuse a password that the head could not store unchanged."""
    try:
        size = len(password.encode())
    except UnicodeEncodeError:
        raise Problem("bad_password", "the password is not valid UTF-8", "choose another") from None
    if size > MAX_PASSWORD_BYTES:
        raise Problem(
            "bad_password",
            f"a password can have at most {MAX_PASSWORD_BYTES} bytes; this one has {size}",
            "choose a shorter one",
        )
    if "\0" in password:
        raise Problem("bad_password", "a password cannot contain a NUL character", "choose another")
