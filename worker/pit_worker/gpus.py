"""GPUs by NVML: which this node has, what ails them, who computes on them, how busy they are.

NVML takes as long as it likes: only one thread calls it, and the loop never waits for that one.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pit_protocol.beat import Resource, Trouble, Usage
from pit_worker.entry import Entry, Key
from pit_worker.loop import Loop
from pit_worker.nvml import MAX_REASON, Ailing, Driver, NoDriver, User
from pit_worker.process import Process
from pit_worker.usage import Means, Owners

HASTE = float(os.environ.get("PIT_GPU_HASTE", "1"))  # a test lets the next three go by faster
LOOK_S = 10.0 / HASTE  # between two looks at what ails them
SAMPLE_S = 2.0 / HASTE  # between two samples of use
TELL_S = 30.0 / HASTE  # between two reports with the mean of them
HUNG_S = 30.0  # a driver that does not answer for longer is a trouble of each GPU
FIND_S = 60.0  # how long the head is not greeted while the driver does not answer
HUNG = f"does not answer: its driver has been silent for {HUNG_S:.0f} s"
MAX_NAMED = 3  # strangers that a reason names
log = logging.getLogger(__name__)


class Task(NamedTuple):
    """What the thread is to find out."""

    entries: tuple[Entry, ...] | None  # of those who may use GPUs; None: no look this time
    held: dict[Key, tuple[str, ...]]  # what to measure


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
        entries = tuple(process.entry for process in self._known.values())
        threading.Thread(target=self._serve, args=(entries,), name="gpus", daemon=True).start()
        self._loop.after(FIND_S, self._give_up)

    def _serve(self, entries: tuple[Entry, ...]) -> None:
        """The thread; it ends at once where there are no GPUs."""
        driver = Driver()
        try:
            resources = driver.find()
        except NoDriver as error:
            log.info("this node has no GPUs: %s", error)
            resources = ()
        health = Health(driver, [resource.unit for resource in resources])
        first = health.look(Owners.of(entries).owns) if resources else None
        self._loop.post(lambda: self._on_found(resources, first))
        while resources:
            task = self._tasks.get()
            troubles = None if task.entries is None else health.look(Owners.of(task.entries).owns)
            samples = {key: driver.measure(units) for key, units in task.held.items()}
            self._loop.post(lambda t=troubles, s=samples: self._on_answer(t, s))  # type: ignore[misc]

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
            entries = tuple(process.entry for process in self._known.values())
            self._tasks.put(Task(entries if is_time else None, held))
        if is_time:
            self._look_at = now + LOOK_S

    def _held(self) -> dict[Key, tuple[str, ...]]:
        """GPUs of processes that run."""
        held = {}
        for key, process in self._known.items():
            spec = process.entry.intent.spec
            if spec and process.started_at is not None and not process.has_ended and not process.end:
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


class Health:
    """What ails each GPU, look by look."""

    def __init__(self, driver: Driver, units: Sequence[str]) -> None:
        self._driver = driver
        self._units = units
        self._strangers: dict[str, set[int]] = {}  # in the last look
        self._is_first = True
        self._told: dict[str, tuple[set[int], str]] = {}

    def look(self, owns: Callable[[int], bool]) -> tuple[Trouble, ...]:
        """All troubles there are; `owns` knows the process ids that may use a GPU."""
        try:
            self._driver.renew()
        except Ailing as ailing:
            return tuple(Trouble(unit, str(ailing)) for unit in self._units)
        troubles = []
        for unit in self._units:
            try:
                strangers = {user for user in self._driver.users(unit) if not owns(user.pid)}
            except Ailing as ailing:
                troubles.append(Trouble(unit, str(ailing)))
                continue
            if reason := self._foreign(unit, strangers):
                troubles.append(Trouble(unit, reason))
        self._is_first = False
        return tuple(troubles)

    def _foreign(self, unit: str, strangers: Collection[User]) -> str:
        """Why it is not ours to give; a process that just began or ended may pass for a stranger once.

        Not in the first look: a restart of the worker must not make a GPU look free for a while.
        """
        before, pids = self._strangers.get(unit, set()), {user.pid for user in strangers}
        self._strangers[unit] = pids
        lasting = pids if self._is_first else pids & before
        told, reason = self._told.get(unit, (set(), ""))
        if lasting != told:
            # Only then: their memory changes all the time, and would be news all the time.
            reason = _render([user for user in strangers if user.pid in lasting])
            self._told[unit] = lasting, reason
        return reason


def _render(strangers: Sequence[User]) -> str:
    if not strangers:
        return ""
    names = [_name(user) for user in sorted(strangers)[:MAX_NAMED]]
    more = len(strangers) - len(names)
    return f"is used by {'; '.join(names)}{f'; and {more} more' if more else ''}"[:MAX_REASON]


def _name(user: User) -> str:
    words = f"pid {user.pid}"
    with suppress(OSError):
        name = Path(f"/proc/{user.pid}/comm").read_text(errors="replace").rstrip("\n")
        words += f" ({''.join(character if character.isprintable() else '?' for character in name)})"
    return words if user.memory_mib is None else f"{words}, {user.memory_mib:,} MiB"
