"""Whether the engine answers, and can give GPUs: asked at intervals, by a thread on a line of its own."""

import logging
import os
import threading
import time
from collections.abc import Callable

from pit_worker.engine import Engine, EngineAway, EngineRefused
from pit_worker.engine_facts import has_toolkit, is_too_old
from pit_worker.loop import Loop
from pit_worker.verdicts import EngineProcess, find_engine

HASTE = float(os.environ.get("PIT_WATCH_HASTE", "1"))  # a test lets the next two go by faster
LOOK_S = 5.0 / HASTE  # between two questions
PATIENCE_S = 10.0 / HASTE  # for the answer
AWAY = "its Docker engine does not answer"
TOO_OLD = "its Docker engine is too old (`pit-worker doctor`)"
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
        self._seen: EngineProcess | None = None  # who was last looked at more closely
        self._facts: tuple[str, str] | None = None  # and what was found: the two troubles
        self._has_refused = False  # to give a GPU

    def start(self) -> None:
        threading.Thread(target=self._watch, name="engine", daemon=True).start()

    def refuse_gpus(self) -> None:
        """The engine was asked for a GPU, and has not what it takes; until it is started anew."""
        self._has_refused = True

    def _watch(self) -> None:
        told: tuple[str, str | None] | None = None
        gpu_trouble: str | None = None
        while True:
            try:
                self._engine.ping()
                trouble, gpu_trouble = self._look_closer()
                text = trouble or "the Docker engine answers"
            except (EngineAway, EngineRefused) as error:
                trouble, text = AWAY, str(error)  # of GPUs it says nothing new
            if told is None or trouble != told[0]:
                log.log(logging.ERROR if trouble else logging.INFO, "%s", text)
            if told != (trouble, gpu_trouble):
                told = trouble, gpu_trouble
                self._loop.post(lambda told=told: self._note(*told))  # type: ignore[misc]
            time.sleep(LOOK_S)

    def _look_closer(self) -> tuple[str, str]:
        """Only once for each start of the engine: before the next it does not change."""
        engine = find_engine()
        if self._facts is None or engine != self._seen:
            info = self._engine.info()
            has = has_toolkit(info, engine and engine.pid)
            trouble = TOO_OLD if is_too_old(str(info.get("ServerVersion", ""))) else ""
            self._facts = trouble, NO_TOOLKIT if has is False else ""
            self._seen, self._has_refused = engine, False
        trouble, gpu_trouble = self._facts
        return trouble, NO_TOOLKIT if self._has_refused else gpu_trouble

    def _note(self, trouble: str, gpu_trouble: str | None) -> None:
        self.trouble, self.gpu_trouble = trouble, gpu_trouble
        self._changed()
