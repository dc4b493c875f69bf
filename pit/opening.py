"""Opening the head of the current directory: with its token, or with the questions that get one."""

from pit import dialogue, output, terminal
from pit.connection import Connection, find_connection
from pit.head import Head
from pit_protocol.problem import Problem


def open_head() -> Head:
    """The head, ready for work; raises a Problem if there is none, or no token and no terminal."""
    connection = find_connection()
    if connection.token is None:
        require_terminal(connection)
        output.tell(f"you are not logged in at {connection.url} yet")
        connection = dialogue.log_in(connection)
    return Head(connection)


def require_terminal(connection: Connection) -> None:
    """Raise a Problem unless there is a person who can log in."""
    if terminal.is_interactive():
        return
    raise Problem(
        "no_token",
        f"there is no token for the head at {connection.url} (from {connection.source})",
        "`pit login` on a terminal logs in; `pit login --with-token` reads a token from stdin",
    )
