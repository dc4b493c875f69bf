"""Options and argument types that several commands share."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from pit.args.completers import complete_job
from pit.args.usage_problem import UsageProblem
from pit_protocol.arrays.numbers import array_of, is_element, job_name, parse_job_name

LAST = "last"  # the user's latest job, as a word
LATEST = 0  # and as a number, until the head is asked for it
MAX_JOBS = 10_000
MAX_NUMBER = 2**31 - 1
RANGE = re.compile(r"[0-9]+(\.[0-9]+)?-[0-9]+(\.[0-9]+)?")

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one document per line."
)

pin_option: Callable[[Any], Any] = click.option(
    "--pin", metavar="sha256:…", help="Fingerprint of the certificate that the head must present."
)
user_option: Callable[[Any], Any] = click.option(
    "--user", metavar="NAME", help="Do not ask for the user name."
)
with_token_option: Callable[[Any], Any] = click.option(
    "--with-token", is_flag=True, help="Read a token, as printed by `pit-head add-user`, from stdin."
)
quiet_option: Callable[[Any], Any] = click.option(
    "-q", "--quiet", is_flag=True, help="Print only the number of the new job."
)
yes_option: Callable[[Any], Any] = click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation."
)


def example(*lines: str) -> str:
    """The epilog of a help text; `\\b` keeps click from wrapping it."""
    return "\n  ".join(("\b\nExample:", *lines))


def job_number(text: str) -> int:
    """Parse one job: `190` or `job:190`, an element `190.7`, or `last`, which is LATEST."""
    name = text.removeprefix("job:")
    if name == LAST:
        return LATEST
    if RANGE.fullmatch(name):
        first = name.partition("-")[0]
        raise UsageProblem(
            f"{text!r} is several jobs, and this takes one", f"write one number, such as {first}"
        )
    number = parse_job_name(name)
    if number is None or not 0 < array_of(number) <= MAX_NUMBER:
        raise UsageProblem(
            f"{text!r} is not a job number",
            "`pit status` lists jobs with their numbers; `last` is your latest job",
        )
    return number


def job_numbers(text: str) -> range:
    """Parse jobs: `190`, `190.7`, `job:190`, `last` or a range `190-199` or `190.3-7`."""
    first, dash, last = text.removeprefix("job:").partition("-")
    if LAST in (first, last) and dash:
        raise UsageProblem(f"{text!r} is not a range", "write a range with two numbers: 190-199")
    low = job_number(first or text)
    if dash and is_element(low) and "." not in last:
        last = f"{array_of(low)}.{last}"
    high = job_number(last) if dash else low
    if array_of(low) != array_of(high) and (is_element(low) or is_element(high)):
        raise UsageProblem(f"{text!r} is not a range", "write elements of one array: 190.3-7")
    if low > high:
        raise UsageProblem(f"the range {text} is empty", f"write {job_name(high)}-{job_name(low)}")
    if high - low >= MAX_JOBS:
        raise UsageProblem(f"the range {text} has more than {MAX_JOBS:,} jobs", "write several ranges")
    return range(low, high + 1)


def job_argument(name: str = "number", *, is_optional: bool = False) -> Callable[[Any], Any]:
    """An argument for one job; a command that only reads lets it be optional: the latest job."""
    how = {"default": LAST} if is_optional else {"required": True}
    return click.argument(name, type=job_number, shell_complete=complete_job, **how)


def jobs_argument(*, is_optional: bool = False) -> Callable[[Any], Any]:
    """The same for several jobs."""
    metavar = "[NUMBER]..." if is_optional else "NUMBER..."
    return click.argument(
        "numbers",
        nargs=-1,
        type=job_numbers,
        required=not is_optional,
        metavar=metavar,
        shell_complete=complete_job,
    )


def parse_pairs(words: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Parse filters, which are sent unchanged: `actor=anna limit=20`."""
    pairs = dict(word.partition("=")[::2] for word in words)
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or name not in known:
            raise click.UsageError(f"{word!r} is not a filter; write {', '.join(known)}, each with =VALUE")
    return pairs


def flatten(numbers: tuple[range, ...]) -> list[int]:
    """Each number once, in the given order; LATEST if there is none."""
    return [LATEST] if not numbers else list(dict.fromkeys(number for some in numbers for number in some))
