"""What keeps the processes that a command starts from outliving it: the best that this machine has.

- A cgroup v2: everything forked stays in it, and the kernel kills all of it at once.
- A PID namespace, if the worker is root: everything ends with its first process.
- Otherwise the supervisor adopts orphans (a subreaper) and kills those that are left. A process of the same
  account that kills the supervisor first gets away.
"""

import logging
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pit_worker.runtime import cgroup
from pit_worker.runtime.fork_server import PACKAGES, python
from pit_worker.supervisor import namespace

PROBE_S = 20.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Containment:
    cgroup: Path | None = None  # below which each process gets its own
    is_namespaced: bool = False  # each process gets a PID namespace
    adopts_orphans: bool = False  # each supervisor does


def choose(*, cgroups: bool, pid_namespaces: bool) -> Containment:
    """The best containment that is possible and not switched off."""
    if cgroups and (own := cgroup.find_own()):
        log.info("processes are contained by cgroups below %s", own)
        return Containment(cgroup=own)
    why = why_no_namespace() if pid_namespaces else "pid_namespaces is off"
    if not why:
        log.info("processes are contained by PID namespaces")
        return Containment(is_namespaced=True)
    log.info("processes are contained by their supervisors only: %s", why)
    return Containment(adopts_orphans=True)


def why_no_namespace() -> str:
    """Why this worker cannot make PID namespaces; empty if it can."""
    try:
        tried = subprocess.run(
            [*python(namespace.__file__), *PACKAGES],
            capture_output=True, text=True, check=False, timeout=PROBE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the kernel does not answer"
    if tried.returncode:
        return f"this worker may not make any: {tried.stderr.strip() or f'code {tried.returncode}'}"
    return ""
