"""Opening the head of the current directory, with a login first if there is no token."""

from pit.connect.connection import Connection, find_connection
from pit.head.client import Head
from pit.login import dialog
from pit.ui import output, prompt
from pit_protocol.problem import Problem


def open_head() -> Head:
    """The head, logged in; raises a Problem if there is none, or no token and no terminal."""
    connection = find_connection()
    if connection.token is None:
        require_terminal(connection)
        output.note(f"you are not logged in at {connection.url} yet")
        connection = dialog.log_in(connection)
    return Head(connection)


def require_terminal(connection: Connection) -> None:
    """Raise a Problem unless a person can log in on a terminal."""
    if not prompt.is_interactive():
        raise no_token(connection)


def no_token(connection: Connection) -> Problem:
    return Problem(
        "no_token",
        f"there is no token for the head at {connection.url} (from {connection.source})",
        "`pit login` on a terminal logs in; `pit login --with-token` reads a token from stdin",
    )
