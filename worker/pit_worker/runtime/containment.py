"""What keeps the processes that a command starts from outliving it: the best that this machine has.

- A cgroup v2: everything forked stays in it, and the kernel kills all of it at once.
- A PID namespace, if the worker is root: everything ends with its first process.
- Otherwise the supervisor adopts orphans (a subreaper) and kills those that are left. A process of the same
  account that kills the supervisor first gets away.
"""

import logging
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pit_worker.runtime import cgroup

INIT = Path(__file__).with_name("init.sh")
SUBREAPER = Path(__file__).with_name("subreaper.py")
PROBE_S = 20.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Containment:
    cgroup: Path | None = None  # below which each process gets its own
    namespace: tuple[str, ...] = ()  # the words that give a command its own
    before_supervisor: tuple[str, ...] = ()

    def before_command(self, directory: Path) -> list[str]:
        """The words before the command of the process whose spool entry this is."""
        return [*self.namespace, "/bin/sh", str(INIT), str(directory)] if self.namespace else []

    @property
    def adopts_orphans(self) -> bool:
        return bool(self.before_supervisor)


def choose(*, cgroups: bool, pid_namespaces: bool) -> Containment:
    """The best containment that is possible and not switched off."""
    if cgroups and (own := cgroup.find_own()):
        log.info("processes are contained by cgroups below %s", own)
        return Containment(cgroup=own)
    why = why_no_namespace() if pid_namespaces else "pid_namespaces is off"
    if not why:
        log.info("processes are contained by PID namespaces")
        return Containment(namespace=tuple(_unshare()))
    log.info("processes are contained by their supervisors only: %s", why)
    return Containment(before_supervisor=(sys.executable, "-I", "-S", str(SUBREAPER)))


def why_no_namespace() -> str:
    """Why this worker cannot make PID namespaces; empty if it can."""
    if not shutil.which("unshare"):
        return "the program unshare is missing (package util-linux)"
    probe = subprocess.Popen(
        [*_unshare(), "/bin/sh", "-c", "echo; read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert probe.stdout  # noqa: S101
        is_up = probe.stdout.readline() == "\n"
        # Older versions die of a SIGTERM for the whole tree, and their command at once with them.
        is_shielded = is_up and _blocks(probe.pid, signal.SIGTERM)
        _, error = probe.communicate("\n", PROBE_S)
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
        return "unshare does not end"
    if not is_up:
        return f"unshare failed: {error.strip() or f'code {probe.returncode}'}"
    return "" if is_shielded else "unshare is too old: it does not shield itself from signals"


def _unshare() -> list[str]:
    # Mounts that are made on the node later still appear inside.
    options = ["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [shutil.which("unshare") or "unshare", *options, "--"]


def _blocks(pid: int, number: int) -> bool:
    """Whether a process blocks a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:"))
    return bool(mask >> (number - 1) & 1)
