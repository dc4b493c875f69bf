"""The options of a job on the command line, made from their table."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from pit.args.completers import complete_job, words
from pit.args.dependencies import parse_dependencies
from pit.args.env import complete_plain, parse_assignments
from pit.args.options import job_number
from pit.ui.times import parse_begin
from pit_protocol.job_options import (
    AFTER,
    ASSIGNMENT,
    CODES,
    JOB,
    MOMENT,
    OPTIONS,
    TIMES,
    VALUES,
    Option,
    check_text,
)
from pit_protocol.problem import Problem


def job_options(*, rerun: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a job to a command; it gets those that were given as the dict `given`."""
    added = {name: option for name, option in OPTIONS.items() if option.on_rerun or not rerun}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_options(**values: Any) -> Any:
            context = click.get_current_context()
            given = {}
            for name in added:
                value = values.pop(name)
                if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                    given[name] = value
            return command(given=given, **values)

        decorated: Callable[..., Any] = with_options
        for name, option in reversed(added.items()):
            decorated = _click_option(name, option)(decorated)
        return decorated

    return decorate


def _click_option(name: str, option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if not option.metavar:
        return click.option(*option.flags, name, is_flag=True, help=option.help)
    if option.metavar == ASSIGNMENT:
        return click.option(
            *option.flags,
            name,
            metavar=ASSIGNMENT,
            multiple=True,
            shell_complete=complete_plain,
            callback=lambda ctx, param, words: parse_assignments(words, param.opts[0]),  # noqa: ARG005
            help=option.help,
        )
    if option.metavar == VALUES:
        return click.option(
            *option.flags,
            name,
            metavar=VALUES,
            multiple=True,
            callback=lambda ctx, param, words: list(words),  # noqa: ARG005
            help=option.help,
        )
    if option.metavar == AFTER:
        return click.option(
            *option.flags,
            name,
            metavar=AFTER,
            multiple=True,
            shell_complete=complete_job,
            callback=lambda ctx, param, words: parse_dependencies(words, param.opts[0]),  # noqa: ARG005
            help=option.help,
        )
    kinds: dict[str, Any] = {
        JOB: job_number,
        MOMENT: _moment,
        TIMES: click.IntRange(0),
        CODES: _exit_codes,
    }
    kind = kinds.get(option.metavar) or _text(name)
    complete = complete_job if option.metavar == JOB else words(option.choices)
    return click.option(
        *option.flags, name, metavar=option.metavar, type=kind, shell_complete=complete, help=option.help
    )


def _moment(text: str) -> str:
    try:
        return parse_begin(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _exit_codes(text: str) -> tuple[int, ...]:
    """Parse `75,137`."""
    try:
        return tuple(dict.fromkeys(int(code) for code in text.split(",")))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of exit codes, such as 75,137") from None


def _text(name: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        try:
            check_text(name, text)
        except Problem as problem:
            raise click.BadParameter(problem.message) from None
        return text

    return parse
