"""GPUs by NVML: which this node has, what ails them, who computes on them, how busy they are.

NVML takes as long as it likes: only one thread calls it, and the loop never waits for that one.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from pit_protocol.beat import Resource, Trouble, Usage
from pit_worker.entry import Entry, Key
from pit_worker.gpu_health import Health
from pit_worker.loop import Call, Loop
from pit_worker.nvml import MAX_REASON, Driver, NoDriver
from pit_worker.process import Process
from pit_worker.usage import Means, Owners
from pit_worker.vacating import Left, Vacated, Vacating

HASTE = float(os.environ.get("PIT_GPU_HASTE", "1"))  # a test lets the next three go by faster
LOOK_S = 10.0 / HASTE  # between two looks at what ails them
SAMPLE_S = 2.0 / HASTE  # between two samples of use
TELL_S = 30.0 / HASTE  # between two reports with the mean of them
HUNG_S = 30.0  # a driver that does not answer for longer is a trouble of each GPU
FIND_S = 60.0  # how long the head is not greeted while the driver does not answer
HUNG = f"does not answer: its driver has been silent for {HUNG_S:.0f} s"
log = logging.getLogger(__name__)


# What the thread is to find out; it gives back what the loop is to do with it.
Task = Callable[[Driver, Health], Call]


class Watch:
    """Asks the thread of the driver, from the main loop, and keeps what it answers."""

    def __init__(self, loop: Loop, known: Mapping[Key, Process], changed: Callable[[], None]) -> None:
        self._loop = loop
        self._known = known
        self._changed = changed
        self._found: Callable[[tuple[Resource, ...]], None] | None = None
        self._units: tuple[str, ...] = ()
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._asked_at: float | None = None  # this and the next by the monotonic clock
        self._look_at = 0.0
        self.troubles: tuple[Trouble, ...] | None = None  # None before the first look
        self.means = Means(TELL_S)

    def start(self, found: Callable[[tuple[Resource, ...]], None]) -> None:
        """Call `found` with the GPUs there are, once they have been looked at."""
        self._found = found
        threading.Thread(target=self._serve, args=(self._list_entries(),), name="gpus", daemon=True).start()
        self._loop.after(FIND_S, self._give_up)

    def tell(self, common: str | None) -> tuple[Trouble, ...] | None:
        """All troubles, with one that they have in `common`; None as long as not all is known."""
        if common is None or self.troubles is None or not common:
            return self.troubles if common is not None else None
        own = {trouble.unit: f"; {trouble.reason}" for trouble in self.troubles}
        return tuple(Trouble(unit, (common + own.get(unit, ""))[:MAX_REASON]) for unit in self._units)

    def vacate(self, units: Sequence[str], then: Vacated) -> None:
        """Call `then` when nobody computes on these any more, or when that has become their trouble."""
        known = tuple(unit for unit in units if unit in self._units)
        if known:
            Vacating(self._loop, self, known, then).begin()
        else:
            then("")

    def find_left(self, units: Sequence[str], answer: Callable[[Left, str], None]) -> None:
        entries = self._list_entries()

        def tell(left: Left, ailment: str, troubles: tuple[Trouble, ...] | None) -> None:
            if troubles is not None:
                self._note(troubles)
            answer(left, ailment)

        def find_out(_: Driver, health: Health) -> Call:
            left, ailment = health.list_left(units), health.find_ailment(units)
            # Before the end is told: else the next process gets it.
            troubles = health.look(Owners.of(entries).owns) if ailment else None
            return lambda: tell(left, ailment, troubles)

        self._tasks.put(find_out)

    def condemn(self, left: Left, then: Call) -> None:
        entries = self._list_entries()

        def tell(troubles: tuple[Trouble, ...]) -> None:
            self._note(troubles)
            then()

        def find_out(_: Driver, health: Health) -> Call:
            health.condemn(left)
            troubles = health.look(Owners.of(entries).owns)
            return lambda: tell(troubles)

        self._tasks.put(find_out)

    def _serve(self, entries: tuple[Entry, ...]) -> None:
        """The thread; it ends at once where there are no GPUs."""
        driver = Driver()
        try:
            resources = driver.find()
        except NoDriver as error:
            log.info("this node has no GPUs: %s", error)
            resources = ()
        health = Health(driver, [resource.unit for resource in resources])
        driver.listen([resource.unit for resource in resources])
        first = health.look(Owners.of(entries).owns) if resources else None
        self._loop.post(lambda: self._on_found(resources, first))
        while resources:
            self._loop.post(self._tasks.get()(driver, health))

    def _on_found(self, resources: tuple[Resource, ...], troubles: tuple[Trouble, ...] | None) -> None:
        if self._found is None:
            log.error("the GPUs were found too late; restart the worker to offer them")
            return
        found, self._found = self._found, None
        if resources:
            log.info("GPUs: %s", ", ".join(f"{each.unit} ({each.model})" for each in resources))
            self._units = tuple(resource.unit for resource in resources)
            self._look_at = time.monotonic() + LOOK_S
            self._note(troubles or ())
            self._tick()
        found(resources)

    def _give_up(self) -> None:
        if self._found:
            log.error("the GPU driver has not answered for %d s; no GPUs are offered", FIND_S)
            found, self._found = self._found, None
            found(())

    def _tick(self) -> None:
        self._loop.after(SAMPLE_S, self._tick)
        now = time.monotonic()
        if self._asked_at is not None:
            if now - self._asked_at > HUNG_S:
                self._look_at = now
                self._note(tuple(Trouble(unit, HUNG) for unit in self._units))
            return
        held = self._held()
        is_time = now >= self._look_at - SAMPLE_S / 2
        if is_time or held:
            self._asked_at = now
            self._tasks.put(self._make_task(held, is_time=is_time))
        if is_time:
            self._look_at = now + LOOK_S

    def _make_task(self, held: dict[Key, tuple[str, ...]], *, is_time: bool) -> Task:
        entries = self._list_entries()

        def find_out(driver: Driver, health: Health) -> Call:
            troubles = health.look(Owners.of(entries).owns) if is_time else None
            samples = {key: driver.measure(units) for key, units in held.items()}
            return lambda: self._on_answer(troubles, samples)

        return find_out

    def _list_entries(self) -> tuple[Entry, ...]:
        return tuple(process.entry for process in self._known.values())

    def _held(self) -> dict[Key, tuple[str, ...]]:
        """GPUs of processes that run."""
        held = {}
        for key, process in self._known.items():
            spec = process.entry.intent.spec
            if spec and process.is_running:
                held[key] = tuple(unit for unit in spec.units if unit in self._units)
        return {key: units for key, units in held.items() if units}

    def _on_answer(self, troubles: tuple[Trouble, ...] | None, samples: Mapping[Key, Usage | None]) -> None:
        self._asked_at = None
        if troubles is not None:
            self._note(troubles)
        now, held = time.monotonic(), self._held()
        for key, sample in samples.items():
            if sample and key in held:
                self.means.add(key, sample, now)

    def _note(self, troubles: tuple[Trouble, ...]) -> None:
        if troubles == self.troubles:
            return
        before, self.troubles = set(self.troubles or ()), troubles
        for trouble in set(troubles) - before:
            log.warning("GPU %s %s", trouble.unit, trouble.reason)
        for unit in {trouble.unit for trouble in before} - {trouble.unit for trouble in troubles}:
            log.info("GPU %s is well again", unit)
        self._changed()
