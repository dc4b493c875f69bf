"""Whether the engine answers: asked at intervals, from a thread of its own, on a line of its own."""

import logging
import os
import threading
import time
from collections.abc import Callable

from pit_worker.engine import Engine, EngineAway, EngineRefused
from pit_worker.loop import Loop

HASTE = float(os.environ.get("PIT_WATCH_HASTE", "1"))  # a test lets the next two go by faster
LOOK_S = 5.0 / HASTE  # between two questions
PATIENCE_S = 10.0 / HASTE  # for the answer
AWAY = "its Docker engine does not answer"

log = logging.getLogger(__name__)


class EngineWatch:
    """Knows in the loop what the thread has found."""

    def __init__(self, loop: Loop, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._changed = changed
        self._engine = Engine(PATIENCE_S)
        self.trouble: str | None = None  # before the first answer, or the lack of one

    def start(self) -> None:
        threading.Thread(target=self._watch, name="engine", daemon=True).start()

    def _watch(self) -> None:
        told = None
        while True:
            try:
                self._engine.ping()
                trouble, text = "", "the Docker engine answers"
            except (EngineAway, EngineRefused) as error:
                trouble, text = AWAY, str(error)
            if trouble != told:
                log.log(logging.ERROR if trouble else logging.INFO, "%s", text)
                told = trouble
                self._loop.post(lambda trouble=trouble: self._note(trouble))  # type: ignore[misc]
            time.sleep(LOOK_S)

    def _note(self, trouble: str) -> None:
        self.trouble = trouble
        self._changed()
