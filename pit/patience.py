"""Asking a head again that has gone away for a while: for days by who follows a job, else for a bit."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from pit.head import Unreachable
from pit_protocol.problem import Problem

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # before the connection is tried again
AGAIN = ("busy", "stalled")  # the head has not noticed yet that the last connection broke


class Patience:
    """Repeats a question until it is answered; tells once that the head is lost, once that it is back.

    A head that has never answered is not waited for, unless it was `met` before.
    """

    def __init__(
        self, tell: Callable[[str], None], *, met: bool = False, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._tell = tell
        self._met = met
        self._pause = pause

    def ask(self, question: Callable[[], T]) -> T:
        """The answer; the question must be one that can be asked twice."""
        pause_s = FIRST_PAUSE_S
        lost = False
        while True:
            try:
                answer = question()
            except Unreachable as problem:
                if not self._met:
                    raise
                if not lost:
                    self._tell(f"{problem.message}; trying again")
                lost = True
                self._pause(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if lost:
                self._tell("the head is back")
            self._met = True
            return answer


def persist(action: Callable[[], T], has_moved: Callable[[], Any] = lambda: None) -> T:
    """Do something that can be done again, until the head answers; as long as something moves, for ever."""
    pauses = iter(PAUSES_S)
    before = has_moved()
    while True:
        try:
            return action()
        except Problem as problem:
            if not isinstance(problem, Unreachable) and problem.code not in AGAIN:
                raise
            if has_moved() != before:
                pauses, before = iter(PAUSES_S), has_moved()
            pause_s = next(pauses, None)
            if pause_s is None:
                raise
            time.sleep(pause_s)
