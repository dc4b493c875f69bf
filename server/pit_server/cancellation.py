"""When the work of a thread must stop: its client is gone, its job was stopped, or its time is over.

Long loops call `check`. What blocks in a system call is stopped from outside by a `Watch`.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pit_protocol.problem import Problem

ASK_EVERY_S = 0.1  # whether the work is still wanted
WATCH_EVERY_S = 0.25


class Cancelled(TimeoutError):
    """The work is no longer wanted, or took too long; an OSError, so that gunicorn closes the connection."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Limit:
    """How long the work may take, and what asks whether it is still wanted; `outer` holds too."""

    def __init__(
        self, seconds: float, is_wanted: Callable[[], bool], what: str, hint: str, outer: "Limit | None"
    ) -> None:
        self._seconds, self._is_wanted, self._what, self._hint = seconds, is_wanted, what, hint
        self._outer = outer
        self._asked_at = time.monotonic()
        self._until = self._asked_at + seconds

    def renew(self) -> None:
        """Start the time again, because there was progress that the client saw."""
        self._until = time.monotonic() + self._seconds
        if self._outer:
            self._outer.renew()

    def find_reason(self) -> Problem | None:
        """Why the work must stop."""
        if self._outer and (reason := self._outer.find_reason()):
            return reason
        now = time.monotonic()
        if now >= self._until:
            message = f"{self._what} took longer than {self._seconds:g} s"
            return Problem("took_too_long", message, self._hint, status=503)
        if now < self._asked_at + ASK_EVERY_S:
            return None
        self._asked_at = now
        if self._is_wanted():
            return None
        return Problem("not_wanted", "nobody waits for this any more", status=400)


_current: ContextVar[Limit | None] = ContextVar("limit", default=None)


@contextmanager
def limited(
    seconds: float, is_wanted: Callable[[], bool] = lambda: True, what: str = "this", hint: str = ""
) -> Iterator[None]:
    """Limit what this thread does in the block."""
    token = _current.set(Limit(seconds, is_wanted, what, hint, _current.get()))
    try:
        yield
    finally:
        _current.reset(token)


def check() -> None:
    """Raise Cancelled if the work of this thread must stop; cheap enough for every turn of a loop."""
    limit = _current.get()
    if limit and (reason := limit.find_reason()):
        raise Cancelled(reason)


def renew() -> None:
    """The client got something: the time of this thread's work starts again."""
    if limit := _current.get():
        limit.renew()


class Watch:
    """Calls `stop` from another thread when this one's work must stop, or after `most_s`."""

    def __init__(self, stop: Callable[[], object], most_s: float) -> None:
        self._stop, self._until = stop, time.monotonic() + most_s
        self._limit = _current.get()
        self._over = threading.Event()
        self._reason: Problem | None = None
        self.is_late = False
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def end(self) -> None:
        self._over.set()

    def check(self) -> None:
        """Raise Cancelled if it stopped the work for that; `is_late` says that `most_s` was over."""
        if self._reason:
            raise Cancelled(self._reason)

    def _run(self) -> None:
        while True:
            left_s = self._until - time.monotonic()
            if self._over.wait(min(WATCH_EVERY_S, max(left_s, 0.0)) if self._limit else left_s):
                return
            self._reason = self._limit.find_reason() if self._limit else None
            self.is_late = time.monotonic() >= self._until
            if self._reason or self.is_late:
                self._stop()
                return


def is_open(connection: socket.socket) -> bool:
    """Whether the peer has not closed the connection."""
    poll = select.poll()
    try:
        poll.register(connection, select.POLLRDHUP)
    except ValueError:
        return False  # closed here
    return not poll.poll(0)
