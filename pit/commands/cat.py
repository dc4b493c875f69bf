"""`pit cat`: a file's content on stdout."""

import base64
import io
import sys

import click

from pit.args.completers import DOMAIN, PATH, completer
from pit.args.options import example, json_option
from pit.args.remote_path import RemotePath, parse_remote_path
from pit.exit_codes import Exit
from pit.head.files_api import FilesApi
from pit.head.latest import find_path
from pit.login.session import open_head
from pit.transfer.pull import copy_to_stdout
from pit.ui import output
from pit.ui.documents import FileText
from pit_protocol.paths import name_fields


@click.command("cat", epilog=example("pit cat 190 keep/loss.txt"))
@click.argument("entity", metavar="ENTITY", shell_complete=completer(DOMAIN))
@click.argument("path", required=False, shell_complete=completer(PATH))
@json_option
def command(entity: str, path: str | None, as_json: bool) -> Exit:
    """Print the file PATH of ENTITY: a job's number, home, user:NAME, group:NAME or shared.

    In JSON the content is `text`, or `base64` if it is not UTF-8.
    """
    where = parse_remote_path(entity, path)
    with open_head() as head:
        remote, where = FilesApi(head), find_path(head, where)
        if not as_json:
            copy_to_stdout(remote, where, sys.stdout.buffer)
            return Exit.DONE
        content = io.BytesIO()
        copy_to_stdout(remote, where, content)
    output.show_json(_document(where, content.getvalue()))
    return Exit.DONE


def _document(where: RemotePath, content: bytes) -> FileText:
    name = name_fields(where.path)
    try:
        return FileText(domain=where.domain, **name, text=content.decode())
    except UnicodeDecodeError:
        return FileText(domain=where.domain, **name, base64=base64.b64encode(content).decode())
