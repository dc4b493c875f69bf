"""Environment variables for jobs: `-e` for plain ones, `--secret` for those that pit shows to nobody.

Both take `NAME=VALUE`, or `NAME` to copy one from the user's environment.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from pit.ui.sanitize import sanitize
from pit_protocol.answers.jobs import VariablesDiff
from pit_protocol.job_options import ASSIGNMENT
from pit_protocol.problem import Problem
from pit_protocol.variables import LOOKS_SECRET, NAME, OWN

WORDS = {
    "removed": "set -> -",
    "added": "- -> set",
    "changed": "another value",
    "unknown": "values of different users are not compared",
}


def complete_plain(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return [item for item in _names(incomplete) if not LOOKS_SECRET.fullmatch(item.value)]


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    return _names(incomplete)


def _names(beginning: str) -> list[CompletionItem]:
    names = sorted(name for name in os.environ if name.startswith(beginning))
    return [CompletionItem(name) for name in names if NAME.fullmatch(name) and not OWN.fullmatch(name)]


secret_option: Callable[[Any], Any] = click.option(
    "--secret",
    "secrets",
    metavar=ASSIGNMENT,
    multiple=True,
    shell_complete=_complete,
    callback=lambda ctx, param, words: parse_assignments(words, param.opts[-1]),  # noqa: ARG005
    help="Like -e, but the value is never shown; leave VALUE out to keep it off the command line.",
)


def parse_assignments(words: Sequence[str], option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` or `NAME`; the last assignment wins. No error shows a value."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and NAME.fullmatch(name):
            value = _from_environment(name, option)
        found[name] = value
    return found


def render_differences(comparison: VariablesDiff) -> list[str]:
    """A line for each secret that is not known to be equal."""
    return [
        f"# secret {sanitize(name)}: {text}"
        for how, text in WORDS.items()
        for name in getattr(comparison, how)
    ]


def _from_environment(name: str, option: str) -> str:
    if name not in os.environ:
        raise Problem(
            "bad_variable",
            f"{name} is not set in your environment",
            f"`export {name}=…` first, or write {option} {name}=VALUE",
        )
    return os.environ[name]
