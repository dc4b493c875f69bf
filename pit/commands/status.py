"""`pit status`: running, waiting and done jobs."""

import time
from collections.abc import Callable
from functools import partial

import click

from pit.args.options import example, json_option
from pit.exit_codes import Exit
from pit.head.retry import HeadRetry
from pit.login.session import open_head
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit.ui.tables import render_rich
from pit.views.job.table import JOB_COLUMNS, status_sections
from pit_protocol.answers.jobs import Status

HOLD_S = 10.0  # ages are redrawn at least this often
MAX_ROWS = 1_000  # that the head shows of a section
NO_JOBS = "no jobs yet; `pit run` makes one"

Ask = Callable[..., Status]  # the head's status, since the last one or at once


@click.command("status", epilog=example("pit status --mine --limit 20"))
@click.option("-w", "--watch", is_flag=True, help="Refresh in place until Ctrl-C (exits 0).")
@click.option("--mine", is_flag=True, help="Show only your own jobs.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, MAX_ROWS), help="Show at most N jobs in each section."
)
@json_option
def command(watch: bool, mine: bool, limit: int | None, as_json: bool) -> Exit:
    """Show running, waiting and done jobs.

    S is PREparing, WAIting, STArting, RUNning or SToppinG, and for done jobs SUCceeded, FAIled,
    SToPped, LOSt or TIMed out. UC% and UM% are the utilization of GPUs and of their memory.
    """
    with open_head() as head:
        ask = partial(head.status, limit=limit, mine=mine)
        if not watch:
            _show(ask(), as_json)
            return Exit.DONE
        try:
            _watch(ask, as_json)
        except KeyboardInterrupt:
            return Exit.DONE
    return Exit.DONE


def _show(status: Status, as_json: bool) -> None:
    if as_json:
        output.show_json(status)
        return
    sections = status_sections(status, time.time())
    output.show_table(JOB_COLUMNS, sections)
    if not sections:
        output.show(NO_JOBS)
    if notices := _notices(status):
        output.note(notices)


def _notices(status: Status) -> str:
    """What an admin is told, in one line."""
    return "; ".join(filter(None, (_approvals(status), *map(sanitize, status.notices))))


def _approvals(status: Status) -> str:
    """What an admin is told about users who cannot log in yet; empty if there are none."""
    total, names = status.totals.unapproved, status.unapproved
    if not names:
        return ""
    shown = ", ".join(names) + (", …" if total > len(names) else "")
    waits = "1 account waits" if total == 1 else f"{total} accounts wait"
    return f"{waits} for approval ({sanitize(shown)}): `pit set user:{sanitize(names[0])} active=yes`"


def _watch(ask: Ask, as_json: bool) -> None:
    retry = HeadRetry(output.note)
    status = retry.call(ask)
    if output.is_terminal() and not as_json:
        _show(_watch_in_place(ask, status), as_json)
        return
    while True:
        _show(status, as_json)
        seen = status.revision
        while status.revision == seen:
            status = retry.call(lambda seen=seen: ask(seen, HOLD_S))  # type: ignore[misc]


def _watch_in_place(ask: Ask, status: Status) -> Status:
    """Redraw on the alternate screen until Ctrl-C; returns the last status."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    notice = ""

    def draw() -> Group:
        sections = status_sections(status, time.time())
        # Notices go on the first line, because stderr would disturb the table.
        told = sanitize(notice) or _notices(status)
        words = f"pit: {told}" if told else "" if sections else NO_JOBS
        table = render_rich(JOB_COLUMNS, sections, console.width)
        return Group(Text(words), table) if words else Group(table)

    def show_notice(text: str) -> None:
        nonlocal notice
        notice = text
        live.refresh()

    try:
        # Redrawn every second as well: ages grow, and the window may have changed its size.
        with Live(get_renderable=draw, console=console, screen=True, refresh_per_second=1) as live:
            retry = HeadRetry(show_notice, met=True)
            while True:
                seen = status.revision
                status = retry.call(lambda seen=seen: ask(seen, HOLD_S))  # type: ignore[misc]
                notice = ""
                live.refresh()
    except KeyboardInterrupt:
        return status
