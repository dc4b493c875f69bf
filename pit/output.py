"""The two streams: results on stdout, as table, record or JSON; words about them on stderr."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from pit.safe import safe_lines
from pit.tables import Column, Section, render_plain, render_rich


def is_terminal() -> bool:
    return sys.stdout.isatty()


def has_colour() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(text: str) -> None:
    """Print a result that is made of harmless text."""
    # `color=True`: what may be coloured is decided before, not by stripping sequences here.
    click.echo(text, color=True)


def show_json(document: Any) -> None:
    """Print one document on one line; as pure ASCII it is harmless on a terminal too."""
    click.echo(json.dumps(document))


def show_table(columns: Sequence[Column], sections: Sequence[Section]) -> None:
    if not is_terminal():
        show(render_plain(columns, sections))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(render_rich(columns, sections, console.width))


def tell(sentence: str, hint: str = "") -> None:
    """Say something about the work itself, on stderr."""
    click.echo(f"pit: {safe_lines(sentence)}", err=True)
    if hint:
        click.echo(safe_lines(hint), err=True)
