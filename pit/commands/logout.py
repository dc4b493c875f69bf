"""`pit logout`: give this machine's token up."""

import click

from pit import output
from pit.accounts import drop_account, get_account, user_file
from pit.connection import find_connection
from pit.exits import Exit
from pit.head import Head
from pit.options import example, json_option
from pit_protocol.problem import Problem

GONE = (401, 404)  # what a head answers that does not know the token any more


@click.command("logout", epilog=example("pit logout"))
@json_option
def command(as_json: bool) -> Exit:
    """Revoke the token of this machine on the head, and forget it.

    A head that does not know the token any more is no obstacle; one that does not answer is, for the
    token would live on there.
    """
    connection = find_connection()
    account = get_account(connection.address.keys)
    if account is None:
        raise Problem(
            "not_logged_in", f"{user_file()} has no token for {connection.url}", "`pit login` gets one"
        )
    try:
        with Head(connection) as head:
            head.remove("/tokens/current")
    except Problem as problem:
        if problem.status not in GONE:
            raise
        output.tell("the head did not know the token any more")
    drop_account(account)
    if as_json:
        output.show_json({"url": connection.url, "user": account.user})
    else:
        output.show(f"{account.user} is logged out at {connection.url}")
    return Exit.DONE
