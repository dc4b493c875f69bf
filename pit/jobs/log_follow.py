"""A job's log as a stream of batches: each line once and in order, also over broken connections."""

import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pit.exit_codes import Exit
from pit.head.client import Head, Params
from pit.head.retry import HeadRetry
from pit.ui import output
from pit.ui.log_view import Pace, choose_view
from pit_protocol.answers.jobs import LOG_ENDED, LOG_OFFSET, JobRecord, LogBatch, LogLine
from pit_protocol.arrays.numbers import job_name
from pit_protocol.states import JobState

HOLD_S = 10.0  # the longest that a head holds an answer


def list_batches(
    head: Head, number: int, filters: Params, retry: HeadRetry, pace: Pace, *, follow: bool = True
) -> Iterator[LogBatch]:
    """The log from the beginning; with `follow` until the job has ended, else until now.

    Finished lines come at once, unfinished ones at the given pace.
    """
    params = dict(filters)
    pending: dict[str, LogLine] = {}  # unfinished lines that wait, by source
    pause_ends: float | None = None  # by the monotonic clock
    while True:
        left = pause_ends - time.monotonic() if pause_ends is not None else HOLD_S
        is_due = left <= 0 or not follow
        is_pause = pause_ends is not None and not is_due
        params["unfinished"] = "no" if is_pause else None
        wait_s = 0.0 if is_due else left
        answer = retry.call(lambda wait_s=wait_s: head.log(number, params, wait_s))  # type: ignore[misc]
        for line in answer.lines:
            pending.pop(line.source, None)
        pending |= {line.source: line for line in answer.unfinished}
        shown = list(pending.values()) if is_due or not pace.hold_back else []
        if answer.lines or shown:
            yield replace(answer, unfinished=shown)
        if not (answer.lines or answer.more) and (answer.ended or not follow):
            return
        if is_due:
            pause_ends = None
        elif answer.unfinished:
            pause_ends = time.monotonic() + pace.pause_s
        if shown:
            pending.clear()
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
    view = choose_view(as_json=as_json, follow=follow)
    retry = HeadRetry(view.note, met=met)
    try:
        try:
            for batch in list_batches(head, number, filters, retry, view.pace, follow=follow):
                view.show(batch)
        finally:
            view.end()
    except KeyboardInterrupt:
        return note_still_running([number])
    return Exit.DONE


def copy_raw_log(head: Head, number: int, filters: Params, *, follow: bool) -> Exit:
    """Write the output of one process to stdout, byte by byte."""
    params = dict(filters)
    retry = HeadRetry(output.note)
    try:
        while True:
            part = retry.call(lambda: head.raw_log(number, params, HOLD_S if follow else 0))
            output.show_bytes(part.content)
            if part.headers[LOG_ENDED] == "yes" or not (follow or part.content):
                return Exit.DONE
            params["offset"] = part.headers[LOG_OFFSET]
    except KeyboardInterrupt:
        return note_still_running([number])


def wait_for_end(head: Head, number: int, retry: HeadRetry) -> JobRecord:
    """The record of a job that has ended."""
    while True:
        record = retry.call(lambda: head.job(number, HOLD_S))
        if record.state == JobState.ENDED:
            return record


def note_still_running(numbers: Sequence[int], why: str = "") -> Exit:
    """`why`: what they have not done, such as `not ended after 9s`."""
    first, *others = map(job_name, numbers)
    more = f" and {len(others)} more" if others else ""
    have, keep = ("have", "keep") if others else ("has", "keeps")
    output.note(
        f"job {first}{more} {f'{have} {why} and ' if why else ''}{keep} running",
        f"`pit log {first}` follows it, `pit stop {first}` stops it",
    )
    return Exit.INTERRUPTED
