"""`pit log`: what a job's processes wrote."""

import re
import time

import click

from pit.args.options import example, job_argument, json_option
from pit.exit_codes import Exit
from pit.head.latest import find_number
from pit.jobs.log_follow import show_log
from pit.login.session import open_head
from pit.ui.times import parse_time


def _moment(text: str) -> float:
    try:
        return parse_time(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _process_name(text: str) -> str:
    """The rank or `GROUP.INDEX` of a process, also from `worker 1` or `process 0.1`."""
    match = re.fullmatch(r"\[?(?:worker|process|rank)?[ :]?([0-9]{1,6}(?:\.[0-9]{1,6})?)\]?", text.strip())
    if not match:
        raise click.BadParameter(f"{text!r} is no process: write 1 for worker 1, or 0.1 for GROUP.INDEX")
    return match[1]


@click.command("log", epilog=example("pit log 190 --process 1 --tail 100"))
@job_argument(is_optional=True)
@click.option("--no-follow", is_flag=True, help="Print what there is and exit.")
@click.option("--tail", metavar="LINES", type=click.IntRange(min=1), help="Only the last LINES lines.")
@click.option(
    "-w", "--process", "--worker", "process", metavar="N", type=_process_name, help="Only lines of worker N."
)
@click.option("--since", metavar="TIME", type=_moment, help="Only lines since 14:00, 2026-04-01, or 90m ago.")
@json_option
def command(
    number: int, no_follow: bool, tail: int | None, process: str | None, since: float | None, as_json: bool
) -> Exit:
    """Print the log of job NUMBER, or of your latest job, and follow it until the job has ended.

    Ctrl-C leaves the job running (exit code 130). Unfinished lines, such as progress bars, are
    redrawn on a terminal; in a pipe, a new version comes at most once per second. Colours are kept
    on a terminal only, other control characters are shown escaped.
    """
    filters = {"tail": tail, "process": process, "since": since}
    with open_head() as head:
        return show_log(head, find_number(head, number), filters, as_json=as_json, follow=not no_follow)
