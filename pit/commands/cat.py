"""`pit cat`: a file's content on stdout."""

import base64
import io
import sys

import click

from pit import output
from pit.exits import Exit
from pit.locations import parse_location
from pit.opening import open_head
from pit.options import example, json_option
from pit.pulling import pass_on
from pit.remote import Remote
from pit_protocol.paths import name_fields


@click.command("cat", epilog=example("pit cat 190 keep/loss.txt"))
@click.argument("entity", metavar="ENTITY")
@click.argument("path", required=False)
@json_option
def command(entity: str, path: str | None, as_json: bool) -> Exit:
    """Print the file PATH of ENTITY: a job's number, home, user:NAME, group:NAME or shared.

    In JSON it is `text`, or `base64` if it is no UTF-8.
    """
    where = parse_location(entity, path)
    with open_head() as head:
        remote = Remote(head)
        if not as_json:
            pass_on(remote, where, sys.stdout.buffer)
            return Exit.DONE
        content = io.BytesIO()
        pass_on(remote, where, content)
    output.show_json({"domain": where.domain, **name_fields(where.path), **_fields(content.getvalue())})
    return Exit.DONE


def _fields(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
