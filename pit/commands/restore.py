"""`pit restore`: bring back what is in the trash."""

import click

from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath
from pit.exit_codes import Exit
from pit.login.session import open_head
from pit.ui import output


def _trash_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise click.BadParameter(f"{text!r} is not an ID; `pit show trash` lists them")
    return int(text)


@click.command("restore", epilog=example("pit restore 17"))
@click.argument("ids", nargs=-1, required=True, type=_trash_id, metavar="ID...")
@json_option
def command(ids: tuple[int, ...], as_json: bool) -> Exit:
    """Restore ID from the trash to where it was; `pit show trash` lists the trash.

    Overwrites nothing: it fails if something else is there by now.
    """
    with open_head() as head:
        for number in ids:
            record = head.restore(number)
            if as_json:
                output.show_json(record)
            else:
                output.show(f"{RemotePath(record.domain, record.path)} is back")
    return Exit.DONE
