"""How a container ended, from what the engine reports; and whether a restart of the engine killed it."""

import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pit_protocol.states import KilledBy
from pit_protocol.system.procfs import read_stat
from pit_worker.runtime.docker.engine import ContainerInfo
from pit_worker.spool.entry import End

SOCKET = "unix:///var/run/docker.sock"
PID_FILE = Path("/run/docker.pid")
CLEANUP_S = 60.0  # after its own start the engine kills the containers it cannot keep
REMOVED = "its container was removed by someone else"
RESTARTED = "the Docker daemon was restarted and killed it; with `live-restore` it would have kept running"


class EngineProcess(NamedTuple):
    """The engine between two restarts."""

    pid: int
    start_time: int  # in ticks since boot


def interpret(
    container: ContainerInfo | None,
    started_at: float | None,
    engine_at: float | None,
    *,
    live_restore: Callable[[], bool],
    now: float,
) -> End:
    """The end of a container that started at `started_at`, by an engine that started at `engine_at`.

    `live_restore`: whether containers survive a restart of the engine; asked only if that matters.
    """
    if container is None:
        return End(now, signal=9, killed_by=KilledBy.RUNTIME, reason=REMOVED)
    code = container.exit_code
    signal = code - 128 if 128 < code <= 128 + 64 else None
    end = End(container.finished_at or now, code, signal, oom=container.oom)
    if container.oom or signal not in (9, 15) or not started_at or not engine_at:
        return end
    # Exit code and signal are the same as after a user's own kill; only the times differ.
    if started_at < engine_at and end.ended_at < engine_at + CLEANUP_S and not live_restore():
        return End(end.ended_at, code, signal, KilledBy.RUNTIME, RESTARTED)
    return end


def engine_started_at() -> float | None:
    """When the engine of this machine was started; None if that cannot be seen."""
    engine = find_engine()
    if engine is None:
        return None
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - engine.start_time / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def find_engine() -> EngineProcess | None:
    """The engine of this machine; None if it cannot be seen."""
    pid = _engine_pid()
    stat = read_stat(pid) if pid else None
    return EngineProcess(pid, stat.start_time) if pid and stat else None


def _engine_pid() -> int | None:
    """The process that answers on the engine's socket; if systemd opened that, the engine's PID file."""
    address = os.environ.get("DOCKER_HOST") or SOCKET
    if not address.startswith("unix://"):
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5.0)
            connection.connect(address.removeprefix("unix://"))
            size = struct.calcsize("3i")
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            pid = int(struct.unpack("3i", peer)[0])
        return pid if pid > 1 else int(PID_FILE.read_text())
    except (OSError, ValueError):
        return None
