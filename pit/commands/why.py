"""`pit why`: why a job waits, or how it ended."""

import time

import click

from pit.args.options import example, job_argument, json_option
from pit.exit_codes import Exit
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.ui import output
from pit.views.why import why_text


@click.command("why", epilog=example("pit why 190"))
@job_argument(is_optional=True)
@json_option
def command(number: int, as_json: bool) -> Exit:
    """Explain why job NUMBER, or your latest job, is waiting, where it runs, or how it ended.

    For a waiting job: what is missing, who holds it and until when, which jobs are ahead and why,
    and which smaller request would start now. For an ended job: what failed first, and its last
    lines.
    """
    with open_head() as head:
        found = head.why(find_number(head, number, tell=False))
    if as_json:
        output.show_json(found)
    else:
        output.show(why_text(found, time.time(), output.terminal_width()))
    return Exit.DONE
