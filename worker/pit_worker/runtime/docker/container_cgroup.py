"""The processes in a container, from its cgroup on the node, without asking the engine."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from pit_protocol.system.procfs import read_stat
from pit_worker.runtime import cgroup
from pit_worker.runtime.process_tree import parents_first

MOUNTS = Path("/proc/self/mountinfo")


def find_cgroup(pid: int) -> Path | None:
    """The cgroup of a container by its first process; the unified one, else that of `pids`."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return parse_cgroup(lines, MOUNTS.read_text().splitlines())


def parse_cgroup(lines: list[str], mounts: list[str]) -> Path | None:
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    # With cgroup v1 there often is a unified hierarchy too, which is empty.
    named = next((c for c in paths if "pids" in c.split(",")), "")
    path = paths.get(named)
    if path is None or path == "/":
        return None
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split()[:3]
        is_it = "pids" in options.split(",") if named else kind == "cgroup2"
        if kind in ("cgroup", "cgroup2") and is_it:
            root, mount = fields.split()[3:5]
            with suppress(ValueError):
                return Path(mount) / Path(path).relative_to(root)
    return None


def send(group: Path, init: int, number: int) -> int:
    """Signal all but the init, which would forward it; how many there were, the init included."""
    handles: dict[int, int] = {}
    for pid in cgroup.members(group):
        with suppress(ProcessLookupError):
            handles[pid] = os.pidfd_open(pid)
    # A process that is still a member after it was opened does not have a reused id.
    current = cgroup.members(group)
    stats = {pid: stat for pid in handles if (stat := read_stat(pid)) and not stat.has_ended}
    for pid, _ in parents_first(stats):
        if number and pid in current and pid != init:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handles[pid], number)
    for handle in handles.values():
        os.close(handle)
    return len(current & set(stats))
