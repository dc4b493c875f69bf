"""Whether the engine answers and can give GPUs: a thread with its own connection asks at intervals."""

import logging
import threading
import time
from collections.abc import Callable

from pit_worker.loop import Loop
from pit_worker.runtime.docker.engine import Engine, EngineAway, EngineRefused
from pit_worker.runtime.docker.engine_facts import has_toolkit, is_too_old
from pit_worker.runtime.docker.exit_status import EngineProcess, find_engine
from pit_worker.timing import Timing

AWAY = "its Docker engine does not answer"
TOO_OLD = "its Docker engine is too old (`pit-worker doctor`)"
NO_TOOLKIT = "cannot be given to containers: the Docker engine has no NVIDIA toolkit (`pit-worker doctor`)"

log = logging.getLogger(__name__)


class EngineWatch:
    """What the thread has found, for the loop."""

    def __init__(self, loop: Loop, changed: Callable[[], None], timing: Timing) -> None:
        self._loop = loop
        self._pause_s = timing.engine_check_s
        self._changed = changed
        self._engine = Engine(timing.engine_timeout_s)
        self.trouble: str | None = None  # None before the first check
        self.gpu_trouble: str | None = None
        self._seen: EngineProcess | None = None  # the engine that was inspected last
        self._facts: tuple[str, str] | None = None  # the two troubles it was found to have
        self._has_refused = False  # a GPU

    def start(self) -> None:
        threading.Thread(target=self._watch, name="engine", daemon=True).start()

    def refuse_gpus(self) -> None:
        """The engine could not give a GPU; assume that until it is restarted."""
        self._has_refused = True

    def _watch(self) -> None:
        reported: tuple[str, str | None] | None = None
        gpu_trouble: str | None = None
        while True:
            try:
                self._engine.ping()
                trouble, gpu_trouble = self._inspect()
                text = trouble or "the Docker engine answers"
            except (EngineAway, EngineRefused) as error:
                trouble, text = AWAY, str(error)  # what is known of GPUs stays
            if reported is None or trouble != reported[0]:
                log.log(logging.ERROR if trouble else logging.INFO, "%s", text)
            if reported != (trouble, gpu_trouble):
                reported = trouble, gpu_trouble
                self._loop.post(lambda reported=reported: self._set_troubles(*reported))  # type: ignore[misc]
            time.sleep(self._pause_s)

    def _inspect(self) -> tuple[str, str]:
        """Ask the engine about itself, once per start of it: the answers do not change before the next."""
        engine = find_engine()
        if self._facts is None or engine != self._seen:
            info = self._engine.info()
            has = has_toolkit(info, engine and engine.pid)
            trouble = TOO_OLD if is_too_old(str(info.get("ServerVersion", ""))) else ""
            self._facts = trouble, NO_TOOLKIT if has is False else ""
            self._seen, self._has_refused = engine, False
        trouble, gpu_trouble = self._facts
        return trouble, NO_TOOLKIT if self._has_refused else gpu_trouble

    def _set_troubles(self, trouble: str, gpu_trouble: str | None) -> None:
        self.trouble, self.gpu_trouble = trouble, gpu_trouble
        self._changed()
