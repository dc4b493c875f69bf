"""Who uses a GPU: which process ids belong to processes of this worker."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.system.procfs import read_stat
from pit_worker.spool.entry import Entry

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
