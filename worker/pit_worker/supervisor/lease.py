"""The lease watchdog of a process: it ends the process when its node has been without the head for too long.

It does so whether or not there is still a worker. Containers have their own, `runtime/lease.sh`.
"""

# ruff: noqa: SIM105 - contextlib takes long to import

from __future__ import annotations

import os
import signal
import time

from pit_worker.supervisor.launch import Launch

LONGEST_PAUSE_S = 60.0  # a sleep does not count the time in which the machine is suspended


def remaining_s(launch: Launch) -> float:
    """For how long the lease still lasts; 0 if it does not.

    The file has the time of the last contact, in seconds since boot.
    """
    try:
        with open(f"{launch.directory}/../lease", "rb") as file:
            contact_at = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return max(0.0, contact_at + launch.lease_s - time.clock_gettime(time.CLOCK_BOOTTIME))


def note_expiry(launch: Launch) -> None:
    with open(f"{launch.directory}/expired", "wb") as file:
        file.write(b"over\n")


def watch(launch: Launch) -> None:
    """Wait until the lease has expired, then end the process: by SIGTERM, and after its grace by SIGKILL."""
    while rest_s := remaining_s(launch):
        time.sleep(min(rest_s, LONGEST_PAUSE_S))
    try:
        note_expiry(launch)
    except OSError:
        pass  # a full disk must not keep it alive
    _signal_session(signal.SIGTERM)
    time.sleep(launch.grace_s)
    _signal_session(signal.SIGKILL)
    if launch.cgroup:
        with open(f"{launch.cgroup}/cgroup.kill", "wb") as file:
            file.write(b"1")


def _signal_session(number: int) -> None:
    """Signal all of the session but its supervisor; the worker finds what has left the session."""
    own = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit() or int(name) == own:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                session = int(stat.read().rpartition(b") ")[2].split()[3])
            if session == own:
                os.kill(int(name), number)
        except OSError:
            continue
