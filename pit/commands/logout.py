"""`pit logout`: revoke this machine's token."""

import click

from pit.args.entities import Entity
from pit.args.options import example, json_option
from pit.connect.connection import find_connection
from pit.connect.token_store import drop_account, get_account, user_file
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.ui import output
from pit.ui.documents import LoggedOut
from pit_protocol.problem import Problem

GONE = (401, 404)  # answers of a head that no longer knows the token


@click.command("logout", epilog=example("pit logout"))
@json_option
def command(as_json: bool) -> Exit:
    """Revoke the token of this machine on the head, and delete it here.

    Succeeds if the head no longer knows the token. Fails if the head does not answer, because the
    token would stay valid.
    """
    connection = find_connection()
    account = get_account(connection.address.keys)
    if account is None:
        raise Problem(
            "not_logged_in", f"{user_file()} has no token for {connection.url}", "`pit login` gets one"
        )
    try:
        with Head(connection) as head:
            head.remove(Entity("token", "current"))
    except Problem as problem:
        if problem.status not in GONE:
            raise
        output.note("the head no longer knew the token")
    drop_account(account)
    if as_json:
        output.show_json(LoggedOut(connection.url, account.user))
    else:
        output.show(f"{account.user} is logged out at {connection.url}")
    return Exit.DONE
