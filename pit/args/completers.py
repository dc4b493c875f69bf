"""Which words complete an argument. What the head knows comes from sources that `pit.completion` registers.

Arguments only name what they take, because parsing them must not depend on a connection.
"""

from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import CompletionItem

LAST_JOB, JOB, ENTITY, DOMAIN, PATH, REQUEST, GROUP = (
    "last",
    "job",
    "entity",
    "domain",
    "path",
    "request",
    "group",
)
Word = tuple[str, str]  # and what it means, for shells that show it
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Source = Callable[[click.Context, str], Iterable[Word]]

SOURCES: dict[str, Source] = {LAST_JOB: lambda _, __: [("last", "your latest job")]}


def completer(*kinds: str) -> Completer:
    """For `shell_complete`: words of these kinds that begin with what was typed."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = (word for kind in kinds if kind in SOURCES for word in SOURCES[kind](ctx, incomplete))
        found = dict(word for word in words if word[0].startswith(incomplete))
        return [CompletionItem(value, help=meaning) for value, meaning in found.items()]

    return complete


def words(known: Sequence[str]) -> Completer:
    """For `shell_complete`: these words."""
    return lambda _ctx, _param, typed: [CompletionItem(word) for word in known if word.startswith(typed)]


complete_job = completer(LAST_JOB, JOB)


def complete_file(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files of this machine."""
    return [CompletionItem(incomplete, type="file")]
