"""`pit login`: get a token for this machine."""

import click

from pit import dialogue, output, terminal
from pit.connection import find_connection
from pit.exits import Exit
from pit.head import Head
from pit.opening import require_terminal
from pit.options import example, json_option, user_option, with_token_option
from pit.safe import safe


@click.command("login", epilog=example("pit login --user anna"))
@user_option
@with_token_option
@json_option
def command(user: str | None, with_token: bool, as_json: bool) -> Exit:
    """Log in at the head that is used here, or register there.

    Your token goes to ~/.pituser.txt (mode 0600); an older one for the same head is replaced.
    """
    if user and with_token:
        raise click.UsageError("--user and --with-token exclude each other: a token has its user")
    connection = find_connection()
    if with_token:
        connection = dialogue.log_in_by_token(connection, terminal.read_token())
    else:
        require_terminal(connection)
        connection = dialogue.log_in(connection, user)
    with Head(connection) as head:
        me = head.me()
    if as_json:
        output.show_json(me)
    else:
        output.show(f"logged in at {connection.url} as {safe(me['name'])}")
    return Exit.DONE
