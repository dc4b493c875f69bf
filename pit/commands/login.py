"""`pit login`: get a token for this machine."""

import click

from pit.args.options import example, json_option, user_option, with_token_option
from pit.connect.connection import find_connection
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.login import dialog
from pit.login.session import require_terminal
from pit.ui import output, prompt
from pit.ui.sanitize import sanitize


@click.command("login", epilog=example("pit login --user anna"))
@user_option
@with_token_option
@json_option
def command(user: str | None, with_token: bool, as_json: bool) -> Exit:
    """Log in at the current head, or register there.

    Your token is stored in ~/.pituser.txt (mode 0600) and replaces an older one for the same head.
    """
    if user and with_token:
        raise click.UsageError("--user and --with-token exclude each other: a token has its user")
    connection = find_connection()
    if with_token:
        connection = dialog.log_in_by_token(connection, prompt.read_token())
    else:
        require_terminal(connection)
        connection = dialog.log_in(connection, user)
    with Head(connection) as head:
        me = head.me()
    if as_json:
        output.show_json(me)
    else:
        output.show(f"logged in at {connection.url} as {sanitize(me.name)}")
    return Exit.DONE
