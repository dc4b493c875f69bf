"""Options and argument types that several commands share."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

MAX_JOBS = 10_000
MAX_NUMBER = 2**31 - 1

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
yes_option: Callable[[Any], Any] = click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation."
)


def example(*lines: str) -> str:
    """The epilog of a help text; `\\b` keeps click from wrapping it."""
    return "\n  ".join(("\b\nExample:", *lines))


def job_number(text: str) -> int:
    """Parse one job: `190` or `job:190`."""
    number = text.removeprefix("job:")
    if not re.fullmatch(r"[0-9]{1,10}", number) or not 0 < int(number) <= MAX_NUMBER:
        raise click.BadParameter(f"{text!r} is not a job number")
    return int(number)


def job_numbers(text: str) -> range:
    """Parse jobs: `190`, `job:190` or a range `190-199`."""
    first, dash, last = text.removeprefix("job:").partition("-")
    low = job_number(first or text)
    high = job_number(last) if dash else low
    if not low <= high < low + MAX_JOBS:
        raise click.BadParameter(f"the range {text} is empty or has more than {MAX_JOBS:,} jobs")
    return range(low, high + 1)


def parse_pairs(words: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Parse filters, which are sent unchanged: `actor=anna limit=20`."""
    pairs = dict(word.partition("=")[::2] for word in words)
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or name not in known:
            raise click.UsageError(f"{word!r} is no filter; write {', '.join(known)}, each with =VALUE")
    return pairs


def flatten(numbers: tuple[range, ...]) -> list[int]:
    """Each number once, in the given order."""
    return list(dict.fromkeys(number for some in numbers for number in some))
