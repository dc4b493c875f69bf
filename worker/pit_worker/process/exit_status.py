"""How a process ended, from what the worker, its supervisor and the container engine have written down."""

import time
from dataclasses import replace

from pit_protocol.states import KilledBy
from pit_worker.process.process import Process
from pit_worker.spool.entry import End

DISK_FULL = "its node's disk is full: how it ended could not be written down"
SIGNALLED = range(129, 128 + 64 + 1)  # exit codes by which a shell says that a signal ended the command


def read_end(process: Process, gpu_fault: str = "") -> End:
    """The end of a process of which nothing is left."""
    # If this gets the claim, the supervisor exited without it, so the command never ran.
    if process.entry.prevent_start():
        if process.stop:
            return End(time.time(), killed_by=process.stop.killed_by, reason="stopped before it began")
        reason = "its supervisor could not start"
        return End(time.time(), killed_by=KilledBy.WORKER, reason=reason, node_fault=True)
    if (fault := process.entry.fault()) and not process.stop:
        return End(time.time(), killed_by=KilledBy.WORKER, reason=fault, node_fault=True)
    end = _read_exit(process)
    spec = process.entry.intent.spec
    if not process.stop and spec and process.entry.lease_has_expired():
        reason = f"its node had no contact with the head for {spec.lease_s:g} s"
        end = replace(end, killed_by=KilledBy.LEASE, reason=reason)
    # A program that loses its GPU can fail in many ways; this is the cause.
    is_failure = end.exit_code and not end.killed_by and not end.reason
    return replace(end, reason=gpu_fault) if gpu_fault and is_failure else end


def _read_exit(process: Process) -> End:
    """From the container engine, or from the supervisor's file, or from the absence of both."""
    entry, stop = process.entry, process.stop
    killed_by = stop.killed_by if stop else None
    if status := entry.container_exit():
        return replace(status, killed_by=killed_by, reason=stop.reason) if stop else status
    code = entry.exit_code()
    if code is None and not stop and entry.exit_could_not_be_saved():
        return End(time.time(), killed_by=KilledBy.WORKER, reason=DISK_FULL)
    if code is None:
        reason = stop.reason if stop else "its supervisor was killed"
        return End(time.time(), signal=9, killed_by=killed_by, reason=reason)
    return End(
        entry.exited_at() or time.time(),
        exit_code=code,
        signal=code - 128 if code in SIGNALLED else None,
        killed_by=killed_by,
        reason=stop.reason if stop else "",
    )
