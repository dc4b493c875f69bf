"""`pit wait`: block until jobs have ended."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from pit.args.options import example, flatten, jobs_argument, json_option
from pit.exit_codes import Exit
from pit.head.client import ONES_OWN, Head
from pit.head.latest import find_numbers
from pit.head.retry import HeadRetry
from pit.jobs.delay_notes import DelayNotes
from pit.jobs.log_follow import HOLD_S, note_still_running
from pit.login.session import open_head
from pit.ui import desktop, output, render
from pit.ui.times import short_age
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.durations import parse_seconds
from pit_protocol.problem import Problem
from pit_protocol.states import JobState

End = tuple[int, JobRecord | Problem]  # of a job: how it ended, or why it cannot be waited for


def _duration(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


class TimedOut(Exception):
    """The time of --timeout is over."""


class Deadline:
    """A point in time, or never."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def hold_s(self) -> float:
        """How long the head may hold an answer."""
        return HOLD_S if self._end is None else max(0.0, min(HOLD_S, self._end - time.monotonic()))

    def check(self) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            raise TimedOut

    def pause(self, seconds: float) -> None:
        self.check()
        time.sleep(min(seconds, self.hold_s()))


@dataclass(frozen=True)
class Watch:
    """How jobs are looked at."""

    head: Head
    retry: HeadRetry
    delays: DelayNotes

    def look(self, number: int, hold_s: float) -> JobRecord | Problem:
        """The job as it is, or when it has ended; or why it cannot be waited for."""
        try:
            found = self.retry.call(lambda: self.head.job(number, hold_s, self.delays.seen(number)))
        except Problem as problem:
            if problem.status not in ONES_OWN:
                raise
            return problem
        self.delays.look(found)
        return found


@click.command("wait", epilog=example("pit wait 190-199 && pit download 199", "pit wait --timeout 10m"))
@jobs_argument(is_optional=True)
@click.option("--any", "is_any", is_flag=True, help="Wait only until one of them has ended.")
@click.option("--timeout", metavar="TIME", type=_duration, help="Give up after 10m (exit code 124).")
@click.option("-n", "--notify", "notifies", is_flag=True, help="Show a desktop notification at each end.")
@json_option
def command(
    numbers: tuple[range, ...], is_any: bool, timeout: float | None, notifies: bool, as_json: bool
) -> Exit:
    """Wait until the jobs NUMBER, or your latest job, have ended, and print how they ended.

    The exit code is 0 if all succeeded, 3 if one did not, 1 if one cannot be waited for, and 124
    after --timeout, which leaves the jobs running. With --any, only the first job that ends counts.
    Ctrl-C leaves the jobs running (exit code 130). On a terminal, it says what a job waits for.
    """
    code = Exit.DONE
    deadline = Deadline(timeout)
    with open_head() as head:
        wanted = find_numbers(head, flatten(numbers))
        retry = HeadRetry(output.note, pause=deadline.pause)
        find = _first_end if is_any else _ends
        ends = find(Watch(head, retry, DelayNotes()), wanted, deadline)
        try:
            for number, record in ends:
                wanted.remove(number)
                if isinstance(record, Problem):
                    output.note(record.message, record.hint)
                    code = Exit.PROBLEM
                    continue
                _show(record, as_json)
                if notifies:
                    desktop.notify(f"pit: {record.title}", render.ending(record))
                if record.outcome != "succeeded" and code is Exit.DONE:
                    code = Exit.JOB_FAILED
        except KeyboardInterrupt:
            return note_still_running(wanted)
        except TimedOut:
            note_still_running(wanted, f"not ended after {short_age(timeout or 0)}")
            return Exit.TIMED_OUT
    return code


def _ends(watch: Watch, numbers: Sequence[int], deadline: Deadline) -> Iterator[End]:
    """Each job when it has ended."""
    for number in list(numbers):
        while True:
            found = watch.look(number, deadline.hold_s())
            if isinstance(found, Problem) or found.state == JobState.ENDED:
                yield number, found
                break
            deadline.check()


def _first_end(watch: Watch, numbers: Sequence[int], deadline: Deadline) -> Iterator[End]:
    """The first job that has ended, after the jobs that cannot be waited for."""
    left = list(numbers)
    while left:
        # Read first, so that a job that ends in between is not missed.
        seen = watch.retry.call(watch.head.status).revision
        for number in list(left):
            found = watch.look(number, 0)
            if isinstance(found, Problem):
                left.remove(number)
                yield number, found
            elif found.state == JobState.ENDED:
                yield number, found
                return
        deadline.check()
        if left:
            watch.retry.call(lambda seen=seen: watch.head.status(seen, deadline.hold_s()))  # type: ignore[misc]


def _show(record: JobRecord, as_json: bool) -> None:
    if as_json:
        output.show_json(record)
    else:
        output.show(render.ending(record))
