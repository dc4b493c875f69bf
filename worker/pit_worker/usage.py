"""Who uses the GPUs, and how much: whose process ids are ours, and each process's means."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.beat import Report, Usage
from pit_protocol.states import ProcessState
from pit_worker.entry import Entry, Key, read_stat

GENERATIONS = 100  # of parents that are looked at


@dataclass(frozen=True)
class Owners:
    """The processes of this worker, as far as it takes to know a process id of theirs."""

    cookies: frozenset[bytes]
    groups: frozenset[str]  # parts of cgroup paths: names of their cgroups, ids of their containers

    @classmethod
    def of(cls, entries: Collection[Entry]) -> "Owners":
        groups = (group for entry in entries for group in _groups(entry))
        return cls(frozenset(b"PIT_COOKIE=" + e.cookie.encode() for e in entries), frozenset(groups))

    def owns(self, pid: int) -> bool:
        """Whether it is one of ours, or was started by one; a program may have hidden its environment."""
        return any(self._is_marked(ancestor) for ancestor in _lineage(pid))

    def _is_marked(self, pid: int) -> bool:
        environ = _read(pid, "environ").split(b"\0")
        parts = re.split(r"[/:\n]", _read(pid, "cgroup").decode(errors="replace"))
        groups = {part.removeprefix("docker-").removesuffix(".scope") for part in parts}
        return not (self.cookies.isdisjoint(environ) and self.groups.isdisjoint(groups))


@dataclass
class Sum:
    """Samples of one process since `since`, by the monotonic clock."""

    since: float
    gpu: float = 0.0
    memory: float = 0.0
    count: int = 0

    def add(self, gpu: float, memory: float, count: int = 1) -> None:
        self.gpu += gpu
        self.memory += memory
        self.count += count

    def mean(self) -> Usage:
        return Usage(round(self.gpu / self.count, 1), round(self.memory / self.count, 1))


class Means:
    """What processes use on the mean since they last told it; what gets no answer is not told."""

    def __init__(self, tell_s: float) -> None:
        self._tell_s = tell_s
        self._sums: dict[Key, Sum] = {}
        self._told: dict[Key, Sum] = {}  # in the beat that is on its way

    def add(self, key: Key, sample: Usage, now: float) -> None:
        self._sums.setdefault(key, Sum(now)).add(sample.gpu_percent, sample.memory_percent)

    def tell(self, report: Report, now: float) -> Usage | None:
        """What to say with this report: at times the mean so far, and the last one with its end."""
        key = Key(report.process, report.attempt)
        found = self._sums.get(key)
        if not found or (report.state is not ProcessState.ENDED and now - found.since < self._tell_s):
            return None
        self._told[key] = self._sums.pop(key)
        return found.mean()

    def confirm(self, known: Iterable[Key]) -> None:
        """The head has it; what is not known any more will never be told."""
        self._told.clear()
        self._sums = {key: self._sums[key] for key in known if key in self._sums}

    def restore(self) -> None:
        """The head may not have it: it goes with the next report."""
        for key, told in self._told.items():
            if later := self._sums.get(key):
                told.add(later.gpu, later.memory, later.count)
            self._sums[key] = told
        self._told.clear()


def _groups(entry: Entry) -> Iterator[str]:
    for file in (entry.cgroup, entry.container):
        try:
            name = Path(file.read_text().strip()).name
        except OSError:
            continue
        # Just being written, it is empty; and an empty name would be a part of every path.
        if name:
            yield name


def _lineage(pid: int) -> Iterator[int]:
    for _ in range(GENERATIONS):
        if pid <= 1:
            return
        yield pid
        stat = read_stat(pid)
        if stat is None:
            return
        pid = stat.parent


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
