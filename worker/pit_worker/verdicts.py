"""How a container ended: facts of the engine, and whether the engine itself was to blame."""

import os
import socket
import struct
import time
from pathlib import Path
from typing import NamedTuple

from pit_protocol.states import KilledBy
from pit_worker.engine import Found
from pit_worker.entry import End, read_stat

SOCKET = "unix:///var/run/docker.sock"
PID_FILE = Path("/run/docker.pid")
AFTERMATH_S = 60.0  # after its own start the engine ends what it may not keep
REMOVED = "its container was removed by somebody else"
RESTARTED = "the Docker daemon was started anew and ended it; with `live-restore` it would have gone on"


class EngineProcess(NamedTuple):
    """The engine from one start to the next."""

    pid: int
    start_time: int  # in ticks since boot


def judge(
    found: Found | None, started_at: float | None, engine_at: float | None, *, keeps: bool, now: float
) -> End:
    """The end of a container that began at `started_at`, by an engine that began at `engine_at`.

    `keeps`: the engine lets containers go on when it is started anew.
    """
    if found is None:
        return End(now, signal=9, killed_by=KilledBy.RUNTIME, reason=REMOVED)
    code = found.exit_code
    signal = code - 128 if 128 < code <= 128 + 64 else None
    end = End(found.finished_at or now, code, signal, oom=found.oom)
    if keeps or found.oom or signal not in (9, 15) or not started_at or not engine_at:
        return end
    # Exit code and signal are the same as after a user's own kill; only the times tell.
    if started_at < engine_at and end.ended_at < engine_at + AFTERMATH_S:
        return End(end.ended_at, code, signal, KilledBy.RUNTIME, RESTARTED)
    return end


def engine_started_at() -> float | None:
    """When the engine of this machine was started; None where that cannot be seen."""
    engine = find_engine()
    if engine is None:
        return None
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - engine.start_time / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def find_engine() -> EngineProcess | None:
    """The engine of this machine; None where it cannot be seen."""
    pid = _engine_pid()
    stat = read_stat(pid) if pid else None
    return EngineProcess(pid, stat.start_time) if pid and stat else None


def _engine_pid() -> int | None:
    """Who answers on the engine's socket; where systemd opened that, what the engine's file says."""
    address = os.environ.get("DOCKER_HOST") or SOCKET
    if not address.startswith("unix://"):
        return None
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5.0)
            line.connect(address.removeprefix("unix://"))
            size = struct.calcsize("3i")
            peer = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            pid = int(struct.unpack("3i", peer)[0])
        return pid if pid > 1 else int(PID_FILE.read_text())
    except (OSError, ValueError):
        return None
