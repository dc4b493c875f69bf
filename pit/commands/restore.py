"""`pit restore`: bring back what is in the trash."""

import click

from pit import output
from pit.exits import Exit
from pit.locations import Location
from pit.opening import open_head
from pit.options import example, json_option
from pit_protocol.paths import read_name


def _trash_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise click.BadParameter(f"{text!r} is no ID; `pit show trash` lists them")
    return int(text)


@click.command("restore", epilog=example("pit restore 17"))
@click.argument("ids", nargs=-1, required=True, type=_trash_id, metavar="ID...")
@json_option
def command(ids: tuple[int, ...], as_json: bool) -> Exit:
    """Put what is in the trash under ID back to where it was; `pit show trash` lists it.

    What is there by now stays: then nothing is restored.
    """
    with open_head() as head:
        for number in ids:
            record = head.ask("POST", f"/trash/{number}/restore")
            if as_json:
                output.show_json(record)
            else:
                output.show(f"{Location(record['domain'], read_name(record))} is back")
    return Exit.DONE
