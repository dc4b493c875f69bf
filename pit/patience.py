"""Asking a head again that has gone away for a while, as one does who follows a job for days."""

import time
from collections.abc import Callable
from typing import TypeVar

from pit.head import Unreachable

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0


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
