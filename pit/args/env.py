"""Environment variables for jobs: `-e NAME=VALUE`, or `-e NAME` to copy one from the user's environment."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from pit.ui.sanitize import sanitize
from pit_protocol.answers.jobs import VariablesDiff
from pit_protocol.problem import Problem
from pit_protocol.variables import NAME, OWN, check_variables

WORDS = {
    "removed": "set -> -",
    "added": "- -> set",
    "changed": "another value",
    "unknown": "values of different users are not compared",
}


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    names = sorted(name for name in os.environ if name.startswith(incomplete))
    return [CompletionItem(name) for name in names if NAME.fullmatch(name) and not OWN.fullmatch(name)]


env_option: Callable[[Any], Any] = click.option(
    "-e",
    "--env",
    "env",
    metavar="NAME[=VALUE]",
    multiple=True,
    shell_complete=_complete,
    help="Set this variable for the job's processes; without VALUE, copy it from your environment.",
)


def parse_env(words: Sequence[str]) -> dict[str, str]:
    """Parse the variables; the last assignment wins. No error shows a value."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and NAME.fullmatch(name):
            value = _from_environment(name)
        found[name] = value
    check_variables(found)
    return found


def render_differences(comparison: VariablesDiff) -> list[str]:
    """A line for each variable that is not known to be equal."""
    return [
        f"# variable {sanitize(name)}: {text}"
        for how, text in WORDS.items()
        for name in getattr(comparison, how)
    ]


def _from_environment(name: str) -> str:
    if name not in os.environ:
        raise Problem(
            "bad_variable",
            f"{name} is not set in your environment",
            f"`export {name}=…` first, or write -e {name}=VALUE",
        )
    return os.environ[name]
