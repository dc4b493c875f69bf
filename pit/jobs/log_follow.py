"""A job's log as a stream of batches: each line once and in order, also over broken connections."""

from collections.abc import Iterator

from pit.exit_codes import Exit
from pit.head.client import Head, Params
from pit.head.retry import HeadRetry
from pit.ui import output, render
from pit_protocol.answers.jobs import JobRecord, LogLine
from pit_protocol.states import JobState

HOLD_S = 10.0  # the longest that a head holds an answer


def list_batches(
    head: Head, number: int, filters: Params, retry: HeadRetry, *, follow: bool = True
) -> Iterator[list[LogLine]]:
    """Log lines from the beginning; with `follow` until the job has ended, else until now."""
    params = dict(filters)
    while True:
        answer = retry.call(lambda: head.log(number, params, HOLD_S if follow else 0))
        lines = answer.lines
        if lines:
            yield lines
        elif answer.ended or not follow:
            return
        # Only a complete answer moves the cursor; after a broken one the same batch is asked for again.
        params["cursor"] = answer.cursor
        params.pop("tail", None)


def show_log(
    head: Head,
    number: int,
    filters: Params,
    *,
    as_json: bool,
    follow: bool = True,
    met: bool = False,
) -> Exit:
    """Print a job's log; Ctrl-C leaves the job alone and says so."""
    colour = output.has_colour()
    retry = HeadRetry(output.note, met=met)
    try:
        for lines in list_batches(head, number, filters, retry, follow=follow):
            if as_json:
                for line in lines:
                    output.show_json(line)
            else:
                output.show("\n".join(render.log_line(line, colour=colour) for line in lines))
    except KeyboardInterrupt:
        return note_still_running(number)
    return Exit.DONE


def wait_for_end(head: Head, number: int, retry: HeadRetry) -> JobRecord:
    """The record of a job that has ended."""
    while True:
        record = retry.call(lambda: head.job(number, HOLD_S))
        if record.state == JobState.ENDED:
            return record


def note_still_running(number: int) -> Exit:
    output.note(f"job {number} keeps running", f"`pit log {number}` follows it, `pit stop {number}` stops it")
    return Exit.INTERRUPTED
