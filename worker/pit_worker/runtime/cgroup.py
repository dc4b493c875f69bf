"""A cgroup v2 per process: everything that it forks stays in it."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from pit_protocol.system.procfs import read_stat
from pit_worker.runtime.process_tree import parents_first

CPU_PERIOD_US = 100_000
SUBGROUP = "worker"  # as in pit-worker.service
CONTROLLERS = ("cpu", "memory", "pids")
JOIN = 'echo 0 >"$1/cgroup.procs"'


def find_own() -> Path | None:
    """The worker's own cgroup if it may create others below it and move processes there, else None."""
    own = _own_directory(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if own is None:
        return None
    if own.name == SUBGROUP:
        own = own.parent
    enable_controllers(own)
    probe = own / f"pit-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return None
    try:
        joined = subprocess.run(["/bin/sh", "-c", JOIN, "sh", probe], capture_output=True, check=False)
        return own if joined.returncode == 0 else None
    finally:
        probe.rmdir()


def enable_controllers(own: Path) -> None:
    """Let the cgroups below have limits, if nothing runs in this one itself; else the kernel refuses.

    The unit of `pit-worker install` starts the worker in a cgroup of its own (systemd 254 or newer). A worker
    that moved itself there would keep systemd from starting the next one while its processes run.
    """
    with suppress(OSError):
        there = (own / "cgroup.controllers").read_text().split()
        if wanted := [f"+{name}" for name in CONTROLLERS if name in there]:
            (own / "cgroup.subtree_control").write_text(" ".join(wanted))


def make(own: Path, marker: str) -> Path:
    group = own / ("pit-" + re.sub(r"[^\w-]", "_", marker))
    group.mkdir(exist_ok=True)
    return group


def limit(group: Path, cpus: float | None, memory_mib: int | None) -> None:
    """Limit cores and memory, where the machine hands these controllers on to the worker's cgroups."""
    limits = {
        "cpu.max": f"{max(1000, int(cpus * CPU_PERIOD_US))} {CPU_PERIOD_US}" if cpus else "",
        "memory.max": str(memory_mib * 1024 * 1024) if memory_mib else "",
        "memory.swap.max": "0" if memory_mib else "",
    }
    for name, value in limits.items():
        if value and (group / name).exists():
            with suppress(OSError):
                (group / name).write_text(value)


def members(group: Path) -> set[int]:
    """Process ids in `group` and in the cgroups below it."""
    pids: set[int] = set()
    for directory, _, _ in os.walk(group):
        with suppress(OSError):
            pids.update(map(int, (Path(directory) / "cgroup.procs").read_text().split()))
    return pids


def read_cpu_s(group: Path) -> float | None:
    """The processor time that all its members have used so far; None: this kind of cgroup does not say."""
    usage = _read_values(group / "cpu.stat").get("usage_usec")
    return None if usage is None else usage / 1_000_000


def read_memory(group: Path) -> int | None:
    """The bytes of memory that its members use, without files that the kernel may drop."""
    try:
        current = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return max(0, current - _read_values(group / "memory.stat").get("inactive_file", 0))


def _read_values(file: Path) -> dict[str, int]:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines) if value.isdigit()}


def send(group: Path, number: int) -> int:
    """Signal all members; how many there were."""
    pids = members(group)
    if number == signal.SIGKILL and pids and (group / "cgroup.kill").exists():
        # In one step, so that no fork escapes.
        (group / "cgroup.kill").write_text("1")
    if number and pids:
        # After cgroup.kill as well: it does not reach threads that outlived the first one of their process.
        _send_each(group, pids, number)
    return len(pids)


def remove(group: Path) -> None:
    for directory, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(directory).rmdir()


def _send_each(group: Path, pids: set[int], number: int) -> None:
    handles: dict[int, int] = {}
    for pid in pids:
        with suppress(ProcessLookupError):
            handles[pid] = os.pidfd_open(pid)
    # A process that is still a member after it was opened does not have a reused id.
    current = members(group)
    stats = {pid: stat for pid in handles if (stat := read_stat(pid))}
    for pid, _ in parents_first(stats):
        with suppress(ProcessLookupError):
            if pid in current:
                signal.pidfd_send_signal(handles[pid], number)
    for handle in handles.values():
        os.close(handle)


def _own_directory(mountinfo: str, cgroups: str) -> Path | None:
    own = next((line[3:] for line in cgroups.splitlines() if line.startswith("0::/")), None)
    if own is None:
        return None
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        if not rest.startswith("cgroup2 "):
            continue
        root, mount = fields.split()[3:5]
        with suppress(ValueError):
            return Path(mount) / Path(own).relative_to(root)
    return None
