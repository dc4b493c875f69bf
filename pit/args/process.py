"""Naming one process of a job on the command line."""

import re
from collections.abc import Callable
from typing import Any

import click


def process_name(text: str) -> str:
    """The rank or `GROUP.INDEX` of a process, also from `worker 1` or `process 0.1`."""
    match = re.fullmatch(r"\[?(?:worker|process|rank)?[ :]?([0-9]{1,6}(?:\.[0-9]{1,6})?)\]?", text.strip())
    if not match:
        raise click.BadParameter(f"{text!r} is not a process: write 1 for worker 1, or 0.1 for GROUP.INDEX")
    return match[1]


process_option: Callable[[Any], Any] = click.option(
    "-w",
    "--process",
    "--worker",
    "process",
    metavar="N",
    type=process_name,
    help="Worker N, as in the log; by default the first one that runs.",
)
