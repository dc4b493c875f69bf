"""`pit log`: what a job's processes wrote."""

import time

import click

from pit.args.options import example, job_argument, json_option
from pit.args.process import process_name
from pit.exit_codes import Exit
from pit.head.latest import find_number
from pit.jobs.log_follow import copy_raw_log, show_log
from pit.login.session import open_head
from pit.ui.times import parse_time


def _moment(text: str) -> float:
    try:
        return parse_time(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("log", epilog=example("pit log 190 --process 1 -n 100"))
@job_argument(is_optional=True)
@click.option(
    "-f/ ",
    "--follow/--no-follow",
    default=True,
    help="Follow until the end (default), or print what is there and exit.",
)
@click.option(
    "-n", "--tail", metavar="LINES", type=click.IntRange(min=1), help="Print only the last LINES lines."
)
@click.option(
    "-w",
    "--process",
    "--worker",
    "process",
    metavar="N",
    type=process_name,
    help="Print only lines of worker N.",
)
@click.option(
    "--since", metavar="TIME", type=_moment, help="Print only lines since 14:00, 2026-04-01, or 90m ago."
)
@click.option("--raw", is_flag=True, help="Print the output of one process, byte by byte as it was written.")
@json_option
def command(
    number: int,
    follow: bool,
    tail: int | None,
    process: str | None,
    since: float | None,
    raw: bool,
    as_json: bool,
) -> Exit:
    """Print the log of job NUMBER, or of your latest job, and follow it until the job has ended.

    Ctrl-C leaves the job running (exit code 130). Unfinished lines, such as progress bars, are
    redrawn on a terminal; a pipe gets a new version at most once per second. Colors are kept only
    on a terminal, and other control characters are escaped; --raw prints everything as it is.
    """
    filters = {"tail": tail, "process": process, "since": since}
    if raw and as_json:
        raise click.UsageError("--raw prints bytes and --json prints lines: use one of them")
    with open_head() as head:
        number = find_number(head, number)
        if raw:
            return copy_raw_log(head, number, filters, follow=follow)
        return show_log(head, number, filters, as_json=as_json, follow=follow)
