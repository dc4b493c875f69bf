"""`pit connect`: make a head known, and log in there."""

from pathlib import Path

import click

from pit.args.options import example, json_option, pin_option
from pit.connect.connect_files import find_project_path, is_home_path, keep_home_address
from pit.connect.connection import Connection, connect_to
from pit.connect.token_store import user_file
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.login import dialog
from pit.login.trust import establish_trust
from pit.ui import output, prompt
from pit.ui.documents import Connected
from pit.ui.sanitize import sanitize
from pit_protocol.problem import Problem


@click.command("connect", epilog=example("pit connect https://pit.example.org:8443"))
@click.argument("place", metavar="URL|FILE")
@pin_option
@json_option
def command(place: str, pin: str | None, as_json: bool) -> Exit:
    """Use the head at URL from now on, or the one that FILE (a .pitconnect.txt) names.

    The address and the head's certificate are stored in ~/.pitconnect.txt. If no CA that the system
    trusts has signed the certificate, pit shows its fingerprint and asks whether it is the head's.
    Then you log in or register; your token is stored in ~/.pituser.txt (mode 0600).
    """
    address = establish_trust(place, pin)
    path = keep_home_address(address)
    connection = connect_to(address, path)
    user = _get_user(connection)
    if user is None and prompt.is_interactive():
        user = _get_user(dialog.log_in(connection))
    if as_json:
        output.show_json(Connected(address.url, address.pins, user))
    else:
        output.show(f"connected to {address.url}{f' as {sanitize(user)}' if user else ''}")
    if user is None:
        output.note("you are not logged in there yet", "`pit login` logs in")
    other = find_project_path(Path.cwd())
    if other and not is_home_path(other):
        output.note(f"in this project, {other} comes first")
    return Exit.DONE


def _get_user(connection: Connection) -> str | None:
    """The user of the stored token; None if there is no token, or the head does not accept it."""
    if connection.token is None:
        return None
    try:
        with Head(connection) as head:
            return head.me().name
    except Problem as problem:
        if problem.status != 401:
            raise
    output.note(f"the head no longer accepts the token in {user_file()}")
    return None
