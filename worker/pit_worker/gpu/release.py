"""GPUs of a process that has ended: they are free when no process uses them any more.

The driver may take a while to free their memory, and a program that hangs in the driver outlives its
container.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pit_worker.loop import Call, Loop
from pit_worker.process.context import GpusReleased
from pit_worker.timing import Timing

Left = Mapping[str, set[int]]  # unit -> process ids


class Gpus(Protocol):
    """What GpuRelease asks of the monitor; answers come in the loop."""

    def find_left(self, units: Sequence[str], answer: Callable[[Left, str], None]) -> None: ...
    def mark_left(self, left: Left, then: Call) -> None: ...


class GpuRelease:
    """Waits until all are idle, or until the processes left on them have been reported as their trouble."""

    def __init__(
        self, loop: Loop, gpus: Gpus, units: Sequence[str], then: GpusReleased, timing: Timing
    ) -> None:
        self._loop = loop
        self._timing = timing
        self._gpus = gpus
        self._units = units
        self._then: GpusReleased | None = then
        self._fault = ""
        self._until = time.monotonic() + timing.gpu_release_s

    def start(self) -> None:
        # A driver that does not answer at all is reported by the monitor.
        self._loop.after(2 * self._timing.gpu_release_s, self._end)
        self._ask()

    def _ask(self) -> None:
        self._gpus.find_left(self._units, self._on_answer)

    def _on_answer(self, left: Left, fault: str) -> None:
        self._fault = self._fault or fault
        if not left:
            self._end()
        elif time.monotonic() < self._until:
            self._loop.after(self._timing.gpu_release_check_s, self._ask)
        else:
            self._gpus.mark_left(left, self._end)

    def _end(self) -> None:
        then, self._then = self._then, None
        if then:
            then(self._fault)
