"""Output: results on stdout as text, table or JSON; messages on stderr."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence

import click
from msgspec import Struct

from pit.ui.sanitize import sanitize_lines
from pit.ui.tables import Column, Section, render_plain, render_rich
from pit_protocol.wire import to_json


def is_terminal() -> bool:
    return sys.stdout.isatty()


def terminal_width() -> int | None:
    """Columns of the terminal; None in a pipe."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def has_colour() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def can_redraw() -> bool:
    """Whether lines that were printed can be printed over."""
    return is_terminal() and os.environ.get("TERM", "dumb") != "dumb"


def show_part(text: str) -> None:
    """Like `show`, without a newline at the end."""
    click.echo(text, color=True, nl=False)


def show(text: str) -> None:
    """Print a result; the text must be sanitized."""
    # `color=True`: callers decide about colour, so click must not strip it.
    click.echo(text, color=True)


def show_bytes(data: bytes) -> None:
    """Write bytes as they are."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def show_json(document: Struct | Mapping[str, object]) -> None:
    """Print one document on one line, as ASCII, so that it cannot control the terminal."""
    click.echo(json.dumps(to_json(document)))


def show_table(columns: Sequence[Column], sections: Sequence[Section]) -> None:
    if not is_terminal():
        show(render_plain(columns, sections))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(render_rich(columns, sections, console.width))


def note(message: str, hint: str = "") -> None:
    """Print a message on stderr."""
    click.echo(f"pit: {sanitize_lines(message)}", err=True)
    if hint:
        click.echo(sanitize_lines(hint), err=True)
