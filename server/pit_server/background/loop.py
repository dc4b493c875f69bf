"""A background thread: it works once at the start and whenever its topic is notified."""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from sqlalchemy.exc import InterfaceError, OperationalError

from pit_server.wakeups import Wakeups

log = logging.getLogger(__name__)
AFTER_FAILURE_S = 1.0  # pause after an unexpected error
LONG_S = 0.02  # work that takes longer is followed by an equal pause, so that requests get their turn
LONGEST_PAUSE_S = 0.5
CRASH = 70  # exit code; gunicorn starts a new serving process


class Work(Protocol):
    def __call__(self) -> float | None:
        """Do all pending work; return the seconds until the next run without a notification, or None."""


def start(
    name: str, wakeups: Wakeups, topic: str, work: Work, end: Callable[[int], object] = os._exit
) -> threading.Thread:
    """Start the thread; `end` is called should it die, because a head without it would look alive."""

    def run() -> None:
        try:
            _serve(wakeups, topic, work)
        except BaseException:
            log.critical("background thread %s ended; the head exits", name, exc_info=True)
            end(CRASH)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _serve(wakeups: Wakeups, topic: str, work: Work) -> None:
    with wakeups.subscribe(topic) as waiter:
        while not wakeups.is_closed:
            waiter.clear()
            begun = time.monotonic()
            try:
                again_s = work()
            except (OperationalError, InterfaceError) as error:
                log.warning("background thread %s waits for the database: %s", _name(), error.orig)
                again_s = AFTER_FAILURE_S
            except Exception:
                # An unexpected error must not end the thread, because jobs depend on it.
                log.exception("background thread %s failed", _name())
                again_s = AFTER_FAILURE_S
            taken_s = time.monotonic() - begun
            if not wakeups.is_closed:
                waiter.wait(again_s)
            if taken_s > LONG_S and not wakeups.is_closed:
                # Notifications that arrive meanwhile are handled in one go.
                time.sleep(min(taken_s, LONGEST_PAUSE_S))


def _name() -> str:
    return threading.current_thread().name
