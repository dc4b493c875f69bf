"""`pit trust`: log in at the head that a project names."""

from pathlib import Path

import click

from pit.args.options import example, json_option, user_option, with_token_option, yes_option
from pit.connect.connect_files import CONNECT_FILE, get_project_file
from pit.connect.connection import connect_to
from pit.exit_codes import Exit
from pit.login import dialog
from pit.login.session import require_terminal
from pit.ui import output, prompt
from pit.ui.documents import Trusted
from pit_protocol.problem import Problem


@click.command("trust", epilog=example("cd project && pit trust"))
@yes_option
@user_option
@with_token_option
@json_option
def command(yes: bool, user: str | None, with_token: bool, as_json: bool) -> Exit:
    """Trust the head that this project's .pitconnect.txt names, and log in there.

    Shows the file's URL and fingerprint and asks first. Until then pit sends nothing to that head,
    because the author of the project chose it.
    """
    file = get_project_file(Path.cwd())
    if file is None:
        raise Problem(
            "no_project_file",
            f"there is no {CONNECT_FILE} in this project",
            "`pit connect` sets the head for all projects",
        )
    connection = connect_to(file.address, file.path)
    if connection.token is None:
        output.note(f"{file.path} names the head {file.address}")
        if not yes:
            _ask()
        if with_token:
            connection = dialog.log_in_by_token(connection, prompt.read_token())
        else:
            require_terminal(connection)
            connection = dialog.log_in(connection, user)
    if as_json:
        output.show_json(Trusted(file.address.url, file.address.pins))
    else:
        output.show(f"{file.address.url} is trusted")
    return Exit.DONE


def _ask() -> None:
    if not prompt.is_interactive():
        raise Problem("not_asked", "cannot ask without a terminal", "`pit trust --yes` does not ask")
    if not prompt.confirm("Is this a head that you trust?"):
        raise Problem("untrusted_project", "the head is not trusted; nothing was sent to it")
