"""A job's log as a stream of batches, given once and in order whatever happens to the connection."""

from collections.abc import Iterator, Mapping
from typing import Any

from pit import output, render
from pit.exits import Exit
from pit.head import Head, Json
from pit.patience import Patience

HOLD_S = 10.0  # the longest that a head holds an answer


def list_batches(
    head: Head, number: int, filters: Mapping[str, Any], patience: Patience, *, follow: bool = True
) -> Iterator[list[Json]]:
    """Log lines from the beginning; with `follow` until the job has ended, else until now."""
    params = dict(filters)
    while True:
        answer = patience.ask(lambda: head.log(number, params, HOLD_S if follow else 0))
        lines = answer["lines"]
        if lines:
            yield lines
        elif answer["ended"] or not follow:
            return
        # Only a whole answer moves the cursor: a broken one is asked for again.
        params["cursor"] = answer["cursor"]
        params.pop("tail", None)


def show_log(
    head: Head,
    number: int,
    filters: Mapping[str, Any],
    *,
    as_json: bool,
    follow: bool = True,
    met: bool = False,
) -> Exit:
    """Print a job's log; Ctrl-C leaves the job alone and says so."""
    colour = output.has_colour()
    patience = Patience(output.tell, met=met)
    try:
        for lines in list_batches(head, number, filters, patience, follow=follow):
            if as_json:
                for line in lines:
                    output.show_json(line)
            else:
                output.show("\n".join(render.log_line(line, colour=colour) for line in lines))
    except KeyboardInterrupt:
        return say_goes_on(number)
    return Exit.DONE


def wait_for_end(head: Head, number: int, patience: Patience) -> Json:
    """The record of a job that has ended."""
    while True:
        record = patience.ask(lambda: head.job(number, HOLD_S))
        if record["state"] == "ended":
            return record


def say_goes_on(number: int) -> Exit:
    output.tell(f"job {number} goes on; `pit log {number}` comes back to it, `pit stop {number}` ends it")
    return Exit.INTERRUPTED
