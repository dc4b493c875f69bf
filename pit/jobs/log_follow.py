"""A job's log as a stream of batches: each line once and in order, also over broken connections."""

import time
from collections.abc import Iterator

from pit.exit_codes import Exit
from pit.head.client import Head, Params
from pit.head.retry import HeadRetry
from pit.ui import output
from pit.ui.log_view import choose_view
from pit_protocol.answers.jobs import JobRecord, LogBatch
from pit_protocol.states import JobState

HOLD_S = 10.0  # the longest that a head holds an answer


def list_batches(
    head: Head, number: int, filters: Params, retry: HeadRetry, *, follow: bool = True, pause_s: float = 0.0
) -> Iterator[LogBatch]:
    """The log from the beginning; with `follow` until the job has ended, else until now.

    Finished lines come at once, unfinished ones at most once in `pause_s`.
    """
    params = dict(filters)
    resume_at = 0.0  # by the monotonic clock: when unfinished lines may come again
    while True:
        left = resume_at - time.monotonic()
        params["unfinished"] = "no" if left > 0 else None
        wait_s = 0.0 if not follow else min(left, HOLD_S) if left > 0 else HOLD_S
        answer = retry.call(lambda wait_s=wait_s: head.log(number, params, wait_s))  # type: ignore[misc]
        if answer.unfinished and follow:
            resume_at = time.monotonic() + pause_s
        if answer.lines or answer.unfinished:
            yield answer
        if not answer.lines and (answer.ended or not follow):
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
    view = choose_view(as_json=as_json, follow=follow)
    retry = HeadRetry(view.note, met=met)
    try:
        try:
            for batch in list_batches(head, number, filters, retry, follow=follow, pause_s=view.pause_s):
                view.show(batch)
        finally:
            view.end()
    except KeyboardInterrupt:
        return note_still_running(number)
    return Exit.DONE


def wait_for_end(head: Head, number: int, retry: HeadRetry) -> JobRecord:
    """The record of a job that has ended."""
    while True:
        record = retry.call(lambda: head.job(number, HOLD_S))
        if record.state == JobState.ENDED:
            return record


def note_still_running(number: int, why: str = "") -> Exit:
    output.note(
        f"job {number} {f'{why} ' if why else ''}keeps running",
        f"`pit log {number}` follows it, `pit stop {number}` stops it",
    )
    return Exit.INTERRUPTED
