"""Dependencies on the command line: `--after 12,13-15:any --after last`."""

from collections.abc import Sequence

import click

from pit.args.options import flatten, job_numbers
from pit_protocol.dependencies import Dependency, When


def parse_dependencies(words: Sequence[str], flag: str) -> tuple[Dependency, ...]:
    """Parse what was given; `last` is the number LATEST until the head is asked for it."""
    found: dict[Dependency, None] = {}
    for word in words:
        jobs, when = _split(word, flag)
        for number in flatten(tuple(map(job_numbers, jobs))):
            found[Dependency(number, when)] = None
    return tuple(found)


def _split(word: str, flag: str) -> tuple[list[str], When]:
    """`job:12,13:any` as jobs and how they have to end."""
    *first, last = (part.removeprefix("job:") for part in word.split(","))
    if mixed := next((part for part in first if ":" in part), None):
        raise click.BadParameter(
            f"{word!r} has a condition between jobs; it comes last and holds for all of them: "
            f"write {flag} {mixed} and the others in another {flag}"
        )
    last, colon, when = last.partition(":")
    if colon and when not in list(When):
        raise click.BadParameter(f"{when!r} is not a condition; write :ok, :any or :fail after the jobs")
    return [*first, last], When(when) if colon else When.OK
