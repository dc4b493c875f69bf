"""`pit status`: who runs, who waits, who is done."""

import time

import click

from pit import output, render
from pit.exits import Exit
from pit.head import Head, Json
from pit.opening import open_head
from pit.options import example, json_option
from pit.patience import Patience
from pit.safe import safe
from pit.tables import render_rich

HOLD_S = 10.0  # at least this often, ages are drawn anew
NO_JOBS = "no jobs yet; `pit run` makes one"


@click.command("status", epilog=example("pit status -w"))
@click.option("-w", "--watch", is_flag=True, help="Refresh in place until Ctrl-C, which is no error here.")
@json_option
def command(watch: bool, as_json: bool) -> Exit:
    """Show running, waiting and done jobs.

    S is PREparing, WAIting, STArting, RUNning or SToppinG, and of done jobs SUCceeded, FAIled,
    SToPped, LOSt or TIMed out. UC% and UM% are the use of GPUs and of their memory.
    """
    with open_head() as head:
        if not watch:
            _show(head.status(), as_json)
            return Exit.DONE
        try:
            _watch(head, as_json)
        except KeyboardInterrupt:
            return Exit.DONE
    return Exit.DONE


def _show(status: Json, as_json: bool) -> None:
    if as_json:
        output.show_json(status)
        return
    sections = render.status_sections(status, time.time())
    output.show_table(render.JOB_COLUMNS, sections)
    if not sections:
        output.show(NO_JOBS)


def _watch(head: Head, as_json: bool) -> None:
    patience = Patience(output.tell)
    status = patience.ask(head.status)
    if output.is_terminal() and not as_json:
        _show(_watch_in_place(head, status), as_json)
        return
    while True:
        _show(status, as_json)
        seen = status["revision"]
        while status["revision"] == seen:
            status = patience.ask(lambda seen=seen: head.status(seen, HOLD_S))  # type: ignore[misc]


def _watch_in_place(head: Head, status: Json) -> Json:
    """Draw on a screen of its own until Ctrl-C; returns what was drawn last."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    notice = ""

    def picture() -> Group:
        sections = render.status_sections(status, time.time())
        # Words of our own go on the first line: on stderr they would tear the picture.
        words = f"pit: {safe(notice)}" if notice else "" if sections else NO_JOBS
        table = render_rich(render.JOB_COLUMNS, sections, console.width)
        return Group(Text(words), table) if words else Group(table)

    def tell(text: str) -> None:
        nonlocal notice
        notice = text
        live.refresh()

    try:
        # Painted anew every second, too: ages grow, and the window may have changed.
        with Live(get_renderable=picture, console=console, screen=True, refresh_per_second=1) as live:
            patience = Patience(tell, met=True)
            while True:
                seen = status["revision"]
                status = patience.ask(lambda seen=seen: head.status(seen, HOLD_S))  # type: ignore[misc]
                notice = ""
                live.refresh()
    except KeyboardInterrupt:
        return status
