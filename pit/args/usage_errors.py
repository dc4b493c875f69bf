"""Wrong command lines in words: what is wrong, and how it is written.

Imported after a mistake only, so that it costs a correct command line nothing.
"""

import re

import click

from pit.args.unknown_words import unknown_option
from pit.args.usage_problem import UsageProblem

_TOO_MANY = re.compile(r"Got unexpected extra arguments? \((.*)\)")
# Messages of click that say nothing about the way out.
_INCOMPLETE = re.compile(r"^Got unexpected|does not exist|is a file|is a directory")
_RANGE = re.compile(r"(.*) is not in the range x>=(\d+)\.?")


def explain(error: click.ClickException) -> tuple[str, str]:
    """A sentence about a wrong command line, and a hint."""
    if isinstance(error, click.NoSuchOption):
        error = unknown_option(error)
    if isinstance(error, UsageProblem):
        return error.message, error.hint
    context = error.ctx if isinstance(error, click.UsageError) else None
    return _sentence(error), _hint(error, context)


def _sentence(error: click.ClickException) -> str:
    if match := _TOO_MANY.match(error.message):
        words = match[1].split()
        return f"{words[0]!r} is one word too many" if len(words) == 1 else f"{match[1]!r} is too much"
    if match := _RANGE.match(error.message):
        return f"{match[1]} is too small: write {match[2]} or more"
    # Messages of our own types are complete; click would prefix them with "Invalid value".
    own = isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter)
    text = (error.message if own else error.format_message()).rstrip(".")
    return text[:1].lower() + text[1:].replace("a valid integer range", "a whole number")


def _hint(error: click.ClickException, context: click.Context | None) -> str:
    if isinstance(error, click.BadOptionUsage):
        return f"write a value after {error.option_name}, in quotes if it has spaces"
    if context is None:
        return ""
    command = context.command
    if isinstance(command, click.Group):
        return f"`{context.command_path} --help` lists its commands"
    if command.name == "status" and (match := _TOO_MANY.match(error.message)) and match[1].isdecimal():
        return f"`pit show {match[1]}` shows job {match[1]}"
    help_text = f"`{context.command_path} --help` shows its usage"
    if not isinstance(error, click.MissingParameter) and not _INCOMPLETE.search(error.message):
        return help_text
    written = " ".join([context.command_path, *command.collect_usage_pieces(context)[1:]])
    lines = [line.strip() for line in (command.epilog or "").splitlines() if " pit " in f" {line.strip()}"]
    shown = f"for example: {lines[0]}; " if lines else ""
    return f"usage: `{written}`; {shown}{help_text}"
