"""A thread with one duty: it works whenever its bell rings, and once at the start."""

import logging
import threading
import time
from typing import Protocol

from pit_server.bells import Bells

log = logging.getLogger(__name__)
AFTER_FAILURE_S = 1.0  # before it tries again
LONG_S = 0.02  # work that takes longer is followed by a pause as long, so that requests have their turn
LONGEST_PAUSE_S = 0.5


class Work(Protocol):
    def __call__(self) -> float | None:
        """Do what there is to do; the seconds after which to look again without a bell, or None."""


def start(name: str, bells: Bells, bell: str, work: Work) -> threading.Thread:
    thread = threading.Thread(target=_serve, args=(bells, bell, work), name=name, daemon=True)
    thread.start()
    return thread


def _serve(bells: Bells, bell: str, work: Work) -> None:
    with bells.listen(bell) as ear:
        while not bells.is_closed:
            ear.clear()
            begun = time.monotonic()
            try:
                again_s = work()
            except Exception:
                # Whatever it was must not end the duty for good: everything waits for it.
                log.exception("duty %s stumbled", threading.current_thread().name)
                again_s = AFTER_FAILURE_S
            taken_s = time.monotonic() - begun
            if not bells.is_closed:
                ear.wait(again_s)
            if taken_s > LONG_S and not bells.is_closed:
                # What rings meanwhile is done in one go after it.
                time.sleep(min(taken_s, LONGEST_PAUSE_S))
