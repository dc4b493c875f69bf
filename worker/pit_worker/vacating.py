"""GPUs of a process that has ended: they are free when nobody computes on them any more.

What the process had in their memory may take a while to be freed, and a program that hangs in the
driver is not gone when its container is.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pit_worker.loop import Call, Loop

HASTE = float(os.environ.get("PIT_GPU_HASTE", "1"))  # a test lets the next two go by faster
VACATE_S = 30.0 / HASTE  # for which the end of a process is held back
PACE_S = 0.5 / HASTE  # between two looks

Left = Mapping[str, set[int]]  # unit -> process ids
Vacated = Callable[[str], None]  # told what ails one of them, or nothing


class Gpus(Protocol):
    """What is asked; answers come in the loop."""

    def find_left(self, units: Sequence[str], answer: Callable[[Left, str], None]) -> None: ...
    def condemn(self, left: Left, then: Call) -> None: ...


class Vacating:
    """One wait; it is over when all are idle, or when who is left has become their trouble."""

    def __init__(self, loop: Loop, gpus: Gpus, units: Sequence[str], then: Vacated) -> None:
        self._loop = loop
        self._gpus = gpus
        self._units = units
        self._then: Vacated | None = then
        self._ailment = ""
        self._until = time.monotonic() + VACATE_S

    def begin(self) -> None:
        # A driver that does not answer at all is a trouble of its own.
        self._loop.after(2 * VACATE_S, self._end)
        self._ask()

    def _ask(self) -> None:
        self._gpus.find_left(self._units, self._on_answer)

    def _on_answer(self, left: Left, ailment: str) -> None:
        self._ailment = self._ailment or ailment
        if not left:
            self._end()
        elif time.monotonic() < self._until:
            self._loop.after(PACE_S, self._ask)
        else:
            self._gpus.condemn(left, self._end)

    def _end(self) -> None:
        then, self._then = self._then, None
        if then:
            then(self._ailment)
