"""Whether the engine answers, and can give GPUs: asked at intervals, by a thread on a line of its own."""

import logging
import os
import threading
import time
from collections.abc import Callable

from pit_worker.engine import Engine, EngineAway, EngineRefused
from pit_worker.loop import Loop
from pit_worker.toolkit import has_toolkit
from pit_worker.verdicts import EngineProcess, find_engine

HASTE = float(os.environ.get("PIT_WATCH_HASTE", "1"))  # a test lets the next two go by faster
LOOK_S = 5.0 / HASTE  # between two questions
PATIENCE_S = 10.0 / HASTE  # for the answer
AWAY = "its Docker engine does not answer"
NO_TOOLKIT = "cannot be given to containers: the Docker engine has no NVIDIA toolkit (`pit-worker doctor`)"

log = logging.getLogger(__name__)


class EngineWatch:
    """Knows in the loop what the thread has found."""

    def __init__(self, loop: Loop, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._changed = changed
        self._engine = Engine(PATIENCE_S)
        self.trouble: str | None = None  # before the first answer, or the lack of one
        self.gpu_trouble: str | None = None
        self._looked_at: EngineProcess | None = None  # when it was last asked about GPUs
        self._has_refused = False  # to give one

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
            if not trouble:
                self._look_for_gpus()
            time.sleep(LOOK_S)

    def refuse_gpus(self) -> None:
        """The engine was asked for a GPU, and has not what it takes; until it is started anew."""
        self._has_refused = True

    def _look_for_gpus(self) -> None:
        """Only once for each start of the engine: before the next it does not learn."""
        engine = find_engine()
        if self.gpu_trouble is None or engine != self._looked_at:
            self._looked_at, self._has_refused = engine, False
            try:
                has = has_toolkit(self._engine.info(), engine and engine.pid)
            except (EngineAway, EngineRefused):
                return
            trouble = NO_TOOLKIT if has is False else ""
        else:
            trouble = NO_TOOLKIT if self._has_refused else self.gpu_trouble
        if trouble != self.gpu_trouble:
            self._loop.post(lambda: self._note_gpus(trouble))

    def _note_gpus(self, trouble: str) -> None:
        self.gpu_trouble = trouble
        self._changed()

    def _note(self, trouble: str) -> None:
        self.trouble = trouble
        self._changed()
