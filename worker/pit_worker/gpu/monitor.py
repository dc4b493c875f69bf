"""GPUs by NVML: which this node has, their faults, the processes that use them, how busy they are.

A call to NVML may block for long: only one thread makes them, and the loop never waits for it.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from pit_protocol.messages.beat import Resource, Trouble, Usage
from pit_worker.gpu.health import Health
from pit_worker.gpu.nvml import MAX_REASON, Driver, NoDriver
from pit_worker.gpu.owners import Owners
from pit_worker.gpu.release import GpuRelease, Left
from pit_worker.loop import Call, Loop
from pit_worker.process.context import GpusReleased
from pit_worker.process.process import Process
from pit_worker.process.usage import UsageMeans
from pit_worker.spool.entry import Entry, Key
from pit_worker.timing import Timing

HUNG_S = 30.0  # a driver that does not answer for longer is reported as a fault of each GPU
FIND_S = 60.0  # how long the worker waits for the driver before it contacts the head
HUNG = f"does not answer: its driver has been silent for {HUNG_S:.0f} s"
log = logging.getLogger(__name__)


# A query for the thread; it returns what the loop is to do with the answer.
Task = Callable[[Driver, Health], Call]


class GpuMonitor:
    """Belongs to the main loop; gives queries to the thread that owns the driver, and keeps its answers."""

    def __init__(
        self,
        loop: Loop,
        known: Mapping[Key, Process],
        usage: UsageMeans,
        changed: Callable[[], None],
        timing: Timing,
    ) -> None:
        self._loop = loop
        self._timing = timing
        self._known = known
        self._changed = changed
        self._found: Callable[[tuple[Resource, ...]], None] | None = None
        self._units: tuple[str, ...] = ()
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._asked_at: float | None = None  # this and the next by the monotonic clock
        self._check_at = 0.0
        self.troubles: tuple[Trouble, ...] | None = None  # None before the first look
        self._usage = usage

    def start(self, found: Callable[[tuple[Resource, ...]], None]) -> None:
        """Call `found` with the GPUs there are, once they have been checked."""
        self._found = found
        threading.Thread(
            target=self._run_tasks, args=(self._list_entries(),), name="gpus", daemon=True
        ).start()
        self._loop.after(FIND_S, self._give_up)

    def report(self, common: str | None) -> tuple[Trouble, ...] | None:
        """All troubles, together with the one they have in `common`; None before all have been checked."""
        if common is None or self.troubles is None or not common:
            return self.troubles if common is not None else None
        own = {trouble.unit: f"; {trouble.reason}" for trouble in self.troubles}
        return tuple(Trouble(unit, (common + own.get(unit, ""))[:MAX_REASON]) for unit in self._units)

    def release(self, units: Sequence[str], then: GpusReleased) -> None:
        """Call `then` when no process uses these any more, or when it is their trouble that one does."""
        known = tuple(unit for unit in units if unit in self._units)
        if known:
            GpuRelease(self._loop, self, known, then, self._timing).start()
        else:
            then("")

    def find_left(self, units: Sequence[str], answer: Callable[[Left, str], None]) -> None:
        entries = self._list_entries()

        def tell(left: Left, fault: str, troubles: tuple[Trouble, ...] | None) -> None:
            if troubles is not None:
                self._set_troubles(troubles)
            answer(left, fault)

        def query(_: Driver, health: Health) -> Call:
            left, fault = health.list_left(units), health.find_fault(units)
            # Before the end of the process is reported: otherwise the next process gets this GPU.
            troubles = health.check(Owners.of(entries).owns) if fault else None
            return lambda: tell(left, fault, troubles)

        self._tasks.put(query)

    def mark_left(self, left: Left, then: Call) -> None:
        entries = self._list_entries()

        def tell(troubles: tuple[Trouble, ...]) -> None:
            self._set_troubles(troubles)
            then()

        def query(_: Driver, health: Health) -> Call:
            health.mark_left(left)
            troubles = health.check(Owners.of(entries).owns)
            return lambda: tell(troubles)

        self._tasks.put(query)

    def _run_tasks(self, entries: tuple[Entry, ...]) -> None:
        """Run in the thread; it exits at once if there are no GPUs."""
        driver = Driver()
        try:
            resources = driver.find()
        except NoDriver as error:
            log.info("this node has no GPUs: %s", error)
            resources = ()
        health = Health(driver, [resource.unit for resource in resources])
        driver.subscribe([resource.unit for resource in resources])
        first = health.check(Owners.of(entries).owns) if resources else None
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
            self._check_at = time.monotonic() + self._timing.gpu_check_s
            self._set_troubles(troubles or ())
            self._tick()
        found(resources)

    def _give_up(self) -> None:
        if self._found:
            log.error("the GPU driver has not answered for %d s; no GPUs are offered", FIND_S)
            found, self._found = self._found, None
            found(())

    def _tick(self) -> None:
        self._loop.after(self._timing.gpu_sample_s, self._tick)
        now = time.monotonic()
        if self._asked_at is not None:
            if now - self._asked_at > HUNG_S:
                self._check_at = now
                self._set_troubles(tuple(Trouble(unit, HUNG) for unit in self._units))
            return
        held = self._list_held_gpus()
        is_check_due = now >= self._check_at - self._timing.gpu_sample_s / 2
        if is_check_due or held:
            self._asked_at = now
            self._tasks.put(self._make_task(held, is_check_due=is_check_due))
        if is_check_due:
            self._check_at = now + self._timing.gpu_check_s

    def _make_task(self, held: dict[Key, tuple[str, ...]], *, is_check_due: bool) -> Task:
        entries = self._list_entries()

        def query(driver: Driver, health: Health) -> Call:
            troubles = health.check(Owners.of(entries).owns) if is_check_due else None
            samples = {key: driver.measure(units) for key, units in held.items()}
            return lambda: self._on_answer(troubles, samples)

        return query

    def _list_entries(self) -> tuple[Entry, ...]:
        return tuple(process.entry for process in self._known.values())

    def _list_held_gpus(self) -> dict[Key, tuple[str, ...]]:
        """GPUs of live processes, by process."""
        held = {}
        for key, process in self._known.items():
            spec = process.entry.intent.spec
            if spec and process.is_live:
                held[key] = tuple(unit for unit in spec.units if unit in self._units)
        return {key: units for key, units in held.items() if units}

    def _on_answer(self, troubles: tuple[Trouble, ...] | None, samples: Mapping[Key, Usage | None]) -> None:
        self._asked_at = None
        if troubles is not None:
            self._set_troubles(troubles)
        now, held = time.monotonic(), self._list_held_gpus()
        for key, sample in samples.items():
            if sample and key in held:
                self._usage.add(key, sample, now)

    def _set_troubles(self, troubles: tuple[Trouble, ...]) -> None:
        if troubles == self.troubles:
            return
        before, self.troubles = set(self.troubles or ()), troubles
        for trouble in set(troubles) - before:
            log.warning("GPU %s %s", trouble.unit, trouble.reason)
        for unit in {trouble.unit for trouble in before} - {trouble.unit for trouble in troubles}:
            log.info("GPU %s works again", unit)
        self._changed()
