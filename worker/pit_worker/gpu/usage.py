"""GPU usage: which process ids belong to this worker, and the mean usage of each process."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.messages.beat import Report, Usage
from pit_protocol.states import ProcessState
from pit_protocol.system.procfs import read_stat
from pit_worker.spool.entry import Entry, Key

MAX_ANCESTORS = 100  # that are checked


@dataclass(frozen=True)
class Owners:
    """What it takes to tell whether a process id belongs to a process of this worker."""

    markers: frozenset[bytes]
    groups: frozenset[str]  # parts of cgroup paths: names of their cgroups, ids of their containers

    @classmethod
    def of(cls, entries: Collection[Entry]) -> "Owners":
        groups = (group for entry in entries for group in _groups(entry))
        return cls(frozenset(b"PIT_COOKIE=" + e.marker.encode() for e in entries), frozenset(groups))

    def owns(self, pid: int) -> bool:
        """Whether it or an ancestor is one of ours; a program may hide its own environment."""
        return any(self._is_marked(ancestor) for ancestor in _ancestors(pid))

    def _is_marked(self, pid: int) -> bool:
        environ = _read(pid, "environ").split(b"\0")
        parts = re.split(r"[/:\n]", _read(pid, "cgroup").decode(errors="replace"))
        groups = {part.removeprefix("docker-").removesuffix(".scope") for part in parts}
        return not (self.markers.isdisjoint(environ) and self.groups.isdisjoint(groups))


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


class UsageMeans:
    """The mean usage of each process since its last report; a report without an answer does not count."""

    def __init__(self, report_s: float) -> None:
        self._report_s = report_s
        self._sums: dict[Key, Sum] = {}
        self._sent: dict[Key, Sum] = {}  # in the beat that is being sent

    def add(self, key: Key, sample: Usage, now: float) -> None:
        self._sums.setdefault(key, Sum(now)).add(sample.gpu_percent, sample.memory_percent)

    def take(self, report: Report, now: float) -> Usage | None:
        """The usage to send with this report: the mean so far, at intervals and with the end."""
        key = Key(report.process, report.attempt)
        found = self._sums.get(key)
        if not found or (report.state is not ProcessState.ENDED and now - found.since < self._report_s):
            return None
        self._sent[key] = self._sums.pop(key)
        return found.mean()

    def confirm(self, known: Iterable[Key]) -> None:
        """The head has it; drop what belongs to processes that are no longer known."""
        self._sent.clear()
        self._sums = {key: self._sums[key] for key in known if key in self._sums}

    def restore(self) -> None:
        """The head may not have it: add it to the next report."""
        for key, sent in self._sent.items():
            if later := self._sums.get(key):
                sent.add(later.gpu, later.memory, later.count)
            self._sums[key] = sent
        self._sent.clear()


def _groups(entry: Entry) -> Iterator[str]:
    for file in (entry.cgroup, entry.container):
        try:
            name = Path(file.read_text().strip()).name
        except OSError:
            continue
        # While it is being written it is empty, and an empty name would be a part of every path.
        if name:
            yield name


def _ancestors(pid: int) -> Iterator[int]:
    for _ in range(MAX_ANCESTORS):
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
