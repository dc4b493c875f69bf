"""`pit connect`: make a head known, and log in there."""

from pathlib import Path

import click

from pit import dialogue, output, terminal
from pit.accounts import user_file
from pit.connect_files import find_project_path, is_home_path, keep_home_address
from pit.connection import Connection, connect_to
from pit.exits import Exit
from pit.head import Head
from pit.meeting import meet
from pit.options import example, json_option, pin_option
from pit.safe import safe
from pit_protocol.problem import Problem


@click.command("connect", epilog=example("pit connect https://pit.example.org:8443"))
@click.argument("place", metavar="URL|FILE")
@pin_option
@json_option
def command(place: str, pin: str | None, as_json: bool) -> Exit:
    """Use the head at URL from now on, or the one that FILE (a .pitconnect.txt) names.

    The address and the head's certificate go to ~/.pitconnect.txt. If the system's CAs do not vouch for
    the certificate, its fingerprint is shown and you are asked whether it is the head's. Then you log in,
    or register; your token goes to ~/.pituser.txt (mode 0600).
    """
    address = meet(place, pin)
    path = keep_home_address(address)
    connection = connect_to(address, path)
    user = _get_user(connection)
    if user is None and terminal.is_interactive():
        user = _get_user(dialogue.log_in(connection))
    if as_json:
        output.show_json({"url": address.url, "pins": address.pins, "user": user})
    else:
        output.show(f"connected to {address.url}{f' as {safe(user)}' if user else ''}")
    if user is None:
        output.tell("you are not logged in there yet", "`pit login` logs in")
    other = find_project_path(Path.cwd())
    if other and not is_home_path(other):
        output.tell(f"in this project, {other} comes first")
    return Exit.DONE


def _get_user(connection: Connection) -> str | None:
    """Whose the stored token is; None if there is none that the head still accepts."""
    if connection.token is None:
        return None
    try:
        with Head(connection) as head:
            return str(head.me()["name"])
    except Problem as problem:
        if problem.status != 401:
            raise
    output.tell(f"the head does not accept the token in {user_file()} any more")
    return None
