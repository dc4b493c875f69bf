"""The manual page of `pit`, made from its commands: `make docs` writes it, a test compares it."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pit.cli import ALIASES, SECTIONS, pit
from pit.exit_codes import Exit

EXITS = {
    Exit.DONE: "all is done; with \\-l, the job succeeded",
    Exit.PROBLEM: "an error that you can act on; stderr says how",
    Exit.USAGE: "the command line is wrong",
    Exit.JOB_FAILED: "the job itself did not succeed",
    Exit.TIMED_OUT: "the time of \\fBpit wait \\-\\-timeout\\fR is over",
    Exit.INTERRUPTED: "Ctrl\\-C; jobs keep running",
}
PAGE = Path(__file__).parents[3] / "docs" / "man" / "pit.1"


def render() -> str:
    lines = [
        '.\\" Generated from the commands; `make docs` writes it.',
        ".TH PIT 1",
        ".SH NAME",
        "pit \\- run the current git project on a cluster, and follow its jobs",
        ".SH SYNOPSIS",
        ".B pit",
        "[\\-\\-debug] \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...",
        ".SH DESCRIPTION",
        _text(pit.help or ""),
    ]
    root = click.Context(pit, info_name="pit")
    for title, commands in SECTIONS.items():
        lines.append(f".SH {title.upper()}")
        for name in commands:
            found = pit.get_command(root, name)
            assert found is not None
            lines += _command(found, click.Context(found, info_name=name, parent=root))
    lines += [".SH EXIT STATUS", *(f".TP\n{code.value}\n{EXITS[code]}" for code in Exit)]
    return "\n".join(lines) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    also = [alias for alias, name in ALIASES.items() if name == context.info_name]
    yield f".SS {_escaped(context.command_path)} {_escaped(usage)}"
    yield _text(command.help or "")
    if also:
        yield f".PP\nThe same as \\fBpit {also[0]}\\fR."
    with context:
        options = [param for param in command.params if isinstance(param, click.Option)]
        records = [option.get_help_record(context) for option in options]
    for flags, meaning in filter(None, records):
        yield f".TP\n\\fB{_escaped(flags)}\\fR\n{_escaped(meaning)}"
    example = (command.epilog or "").replace("\b\n", "").partition("\n")[2]
    if example:
        yield f".PP\nExample:\n.PP\n.nf\n{_escaped(inspect.cleandoc(example))}\n.fi"
    if isinstance(command, click.Group):
        for name, found in command.commands.items():
            yield from _command(found, click.Context(found, info_name=name, parent=context))


def _text(text: str) -> str:
    """Paragraphs, without the line breaks of the source."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\b", "")))
    return "\n.PP\n".join(_escaped(" ".join(paragraph.split())) for paragraph in paragraphs)


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render())
    sys.stdout.write(f"{PAGE} is written\n")
