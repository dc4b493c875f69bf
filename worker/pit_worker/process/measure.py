"""Measuring what processes use of cores and memory: by their cgroups, or by /proc where they have none.

Reading /proc takes the longer the more processes a machine has, so a thread does it.
"""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from pit_protocol.messages.beat import Usage
from pit_protocol.system.procfs import read_use
from pit_worker.loop import Call, Loop
from pit_worker.process.process import Process
from pit_worker.process.states import State
from pit_worker.process.usage import UsageMeans
from pit_worker.runtime import cgroup
from pit_worker.runtime.base import Runtime
from pit_worker.spool.entry import Entry, Key
from pit_worker.thread_pool import ThreadPool
from pit_worker.timing import Timing

MIB = 1024 * 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Measured(NamedTuple):
    cpu_s: float  # that it has used so far
    memory: int  # bytes that it uses now
    at: float  # by the monotonic clock


class UseMonitor:
    """Belongs to the main loop; measures the running processes every now and then."""

    def __init__(
        self, loop: Loop, runtime: Runtime, known: Mapping[Key, Process], usage: UsageMeans, timing: Timing
    ) -> None:
        self._loop, self._runtime, self._known = loop, runtime, known
        self._usage, self._timing = usage, timing
        self._thread = ThreadPool("use", 1)
        self._latest: dict[Key, Measured] = {}

    def start(self) -> None:
        running = [process.entry for process in self._known.values() if process.state is State.RUNNING]
        if running:
            self._thread.submit(lambda: self._loop.post(self._measure(running)))
        else:
            self._wait()

    def _measure(self, entries: Iterable[Entry]) -> Call:
        """Run in the thread."""
        found = {}
        for entry in entries:
            with suppress(OSError):  # it has just ended
                found[entry.key] = measure(self._runtime, entry)
        return lambda: self._on_answer(found)

    def _on_answer(self, found: Mapping[Key, Measured]) -> None:
        before, self._latest = self._latest, dict(found)
        for key, now in found.items():
            earlier, process = before.get(key), self._known.get(key)
            if earlier and process and process.state is State.RUNNING and now.at > earlier.at:
                # Less than before if a program ended whose parent is not part of the process.
                used_s = max(0.0, now.cpu_s - earlier.cpu_s)
                percent = 100 * used_s / (now.at - earlier.at)
                self._usage.add(key, Usage(cpu_percent=percent, memory_mib=now.memory / MIB), now.at)
        self._wait()

    def _wait(self) -> None:
        self._loop.after(self._timing.use_sample_s, self.start)


def measure(runtime: Runtime, entry: Entry) -> Measured:
    """What a process uses with everything that it started."""
    group = runtime.find_cgroup(entry)
    cpu_s = cgroup.read_cpu_s(group) if group else None
    memory = cgroup.read_memory(group) if group else None
    if cpu_s is None or memory is None:
        uses = [use for pid in runtime.list_pids(entry) if (use := read_use(pid))]
        cpu_s = sum(use.ticks for use in uses) / TICKS_PER_S if cpu_s is None else cpu_s
        memory = sum(use.pages for use in uses) * PAGE if memory is None else memory
    return Measured(cpu_s, memory, time.monotonic())
