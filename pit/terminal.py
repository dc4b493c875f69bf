"""Questions to the person at the terminal; they go to stderr, for stdout is for results."""

import sys

import click

from pit.output import tell
from pit.safe import safe
from pit_protocol.problem import Problem

MOST_BYTES = 72  # bcrypt reads no more of a password


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(label: str) -> str:
    return str(click.prompt(safe(label), err=True)).strip()


def ask_if_any(label: str) -> str:
    """Like `ask`, where no answer is one too."""
    return str(click.prompt(safe(label), default="", show_default=False, err=True)).strip()


def ask_hidden(label: str) -> str:
    return str(click.prompt(safe(label), hide_input=True, err=True))


def ask_new_password() -> str:
    """A password that a head can keep, typed twice."""
    while True:
        password = str(
            click.prompt("New password", hide_input=True, confirmation_prompt="The same once more", err=True)
        )
        try:
            check_password(password)
        except Problem as problem:
            tell(problem.message, problem.hint)
            continue
        return password


def read_token() -> str:
    """A token from stdin; on a terminal it is asked for and not shown."""
    return ask_hidden("Token").strip() if is_interactive() else sys.stdin.readline().strip()


def agrees(question: str) -> bool:
    return click.confirm(safe(question), default=False, err=True)


def check_password(password: str) -> None:
    """Refuse what a head could not keep as it is."""
    try:
        size = len(password.encode())
    except UnicodeEncodeError:
        raise Problem("bad_password", "that password is no text", "choose another") from None
    if size > MOST_BYTES:
        raise Problem(
            "bad_password",
            f"a password has at most {MOST_BYTES} bytes, and this one has {size}",
            "choose a shorter one",
        )
    if "\0" in password:
        raise Problem("bad_password", "a password has no NUL character", "choose another")
