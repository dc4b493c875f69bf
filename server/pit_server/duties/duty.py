"""A thread with one duty: it works whenever its bell rings, and once at the start."""

import logging
import threading
from typing import Protocol

from pit_server.bells import Bells

log = logging.getLogger(__name__)
AFTER_FAILURE_S = 1.0  # before it tries again


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
            try:
                again_s = work()
            except Exception:
                # Whatever it was must not end the duty for good: everything waits for it.
                log.exception("duty %s stumbled", threading.current_thread().name)
                again_s = AFTER_FAILURE_S
            if not bells.is_closed:
                ear.wait(again_s)
