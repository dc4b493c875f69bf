"""Retrying calls to a head that is away: without limit to follow a job, else a few times."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from pit.head.http_session import Unreachable
from pit_protocol.backoff import Backoff
from pit_protocol.problem import Problem

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
TRIES, LONGEST_TRANSFER_PAUSE_S = 6, 16.0
AGAIN = ("busy", "stalled")  # the head has not noticed yet that the last connection broke


class HeadRetry:
    """Repeats a call until it succeeds; reports once that the head is lost and once that it is back.

    A head that has never answered is not waited for, unless `met` says that it has.
    """

    def __init__(
        self, tell: Callable[[str], None], *, met: bool = False, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._tell = tell
        self._met = met
        self._pause = pause

    def call(self, request: Callable[[], T]) -> T:
        """The answer to a request that can be repeated."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        lost = False
        while True:
            try:
                answer = request()
            except Unreachable as problem:
                if not self._met:
                    raise
                if not lost:
                    self._tell(f"{problem.message}; trying again")
                lost = True
                self._pause(backoff.delay_s())
                continue
            if lost:
                self._tell("the head is back")
            self._met = True
            return answer


def with_retry(action: Callable[[], T], progress: Callable[[], Any] = lambda: None) -> T:
    """Repeat an action while the head does not answer; as long as there is progress, without limit."""
    backoff = Backoff(FIRST_PAUSE_S, LONGEST_TRANSFER_PAUSE_S, tries=TRIES)
    before = progress()
    while True:
        try:
            return action()
        except Problem as problem:
            if not isinstance(problem, Unreachable) and problem.code not in AGAIN:
                raise
            if (now := progress()) != before:
                backoff.reset()
                before = now
            if backoff.is_exhausted:
                raise
            time.sleep(backoff.delay_s())
