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
    if not re.fullmatch(r"[0-9]{1,6}\.[0-9]{1,6}", text):
        raise click.BadParameter(f"{text!r} is no process: write GROUP.INDEX, such as 0.1")
    return text


@click.command("log", epilog=example("pit log 190 --process 0.1 --tail 100"))
@job_argument(is_optional=True)
@click.option("--no-follow", is_flag=True, help="Print what there is and exit.")
@click.option("--tail", metavar="LINES", type=click.IntRange(min=1), help="Only the last LINES lines.")
@click.option("--process", metavar="G.P", type=_process_name, help="Only process P of group G.")
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
