"""The end of a process: exit status, release of its GPUs, stage-out of what it wrote, record of the end."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pit_protocol.states import KilledBy
from pit_worker.process.context import Context
from pit_worker.process.exit_status import read_end
from pit_worker.process.process import Process
from pit_worker.process.states import Event
from pit_worker.process.stop import Stopper
from pit_worker.spool.entry import End
from pit_worker.spool.environment import NodeFault, StartRefused

REBOOTED = "the node was rebooted"

log = logging.getLogger(__name__)


class Finisher:
    def __init__(
        self,
        context: Context,
        stopper: Stopper,
        on_still_running: Callable[[Process, int], None],
        on_ended: Callable[[], None],
    ) -> None:
        """`on_still_running` is given the descriptor of a process that has not ended after all."""
        self._context = context
        self._stopper = stopper
        self._on_still_running = on_still_running
        self._on_ended = on_ended

    def collect_exit(self, process: Process) -> None:
        """It has exited: find out how."""
        if process.descriptor is not None:
            self._context.loop.unwatch(process.descriptor)
            os.close(process.descriptor)
            process.descriptor = None
        process.advance(Event.EXITED)
        self._context.runtime.collect_exit(process.entry, partial(self._on_exit_collected, process))

    def release_gpus(self, process: Process) -> None:
        """Nothing of it is left: wait until its GPUs are idle."""
        spec = process.entry.intent.spec
        self._context.release_gpus(spec.units if spec else (), partial(self._on_gpus_released, process))

    def end_by_reboot(self, process: Process) -> None:
        """It was taken before the node rebooted, so it has ended whatever its record says."""
        if self._context.runtime.has_exit_status(process.entry):
            end = read_end(process)
        else:
            end = End(time.time(), killed_by=KilledBy.REBOOT, reason=REBOOTED)
        process.advance(Event.REBOOTED)
        self._stage_out(process, end)

    def refuse(self, process: Process, why: StartRefused) -> None:
        """It never starts; by a NodeFault, another node may start it."""
        is_fault = isinstance(why, NodeFault)
        end = End(time.time(), killed_by=KilledBy.WORKER, reason=str(why), node_fault=is_fault)
        self._finish(process, Event.START_REFUSED, end)

    def cancel(self, process: Process) -> None:
        """It is stopped before it has started."""
        killed_by = process.stop.killed_by if process.stop else None
        end = End(time.time(), killed_by=killed_by, reason="stopped before it began")
        self._finish(process, Event.CANCELLED, end)

    def _on_exit_collected(self, process: Process, descriptor: int | None) -> None:
        if descriptor is not None:
            process.advance(Event.STILL_RUNNING)
            self._on_still_running(process, descriptor)
            return
        self._context.failpoints.reach("after-exit")
        process.advance(Event.EXIT_COLLECTED)
        self._stopper.kill_leftovers(process)

    def _on_gpus_released(self, process: Process, gpu_fault: str) -> None:
        end = read_end(process, gpu_fault)
        process.advance(Event.GPUS_RELEASED)
        self._stage_out(process, end)

    def _stage_out(self, process: Process, end: End) -> None:
        """End it once all it has written is on the head: users look for the files when they see the end."""
        staged_out = partial(self._on_staged_out, process, end)
        self._context.staging.stage_out(
            process.entry, staged_out, partial(self._on_stage_out_delayed, process)
        )
        if process.stop and process.stop.killed_by is KilledBy.USER:
            # Tried once, but not retried: the user who stops a job wants its GPUs back.
            self._context.staging.give_up(process.entry)

    def _on_stage_out_delayed(self, process: Process, why: str) -> None:
        process.waits_for = f"what it has written is not on the head yet: {why}"
        process.entry.write_line(f"pit: {process.waits_for}; trying again", has_ended=True)
        self._context.changed()

    def _on_staged_out(self, process: Process, end: End, trouble: str) -> None:
        if trouble:
            killed_by = end.killed_by or KilledBy.WORKER
            reason = "; ".join(filter(None, (end.reason, trouble)))
            end = replace(end, exit_code=None, signal=None, killed_by=killed_by, reason=reason)
        self._finish(process, Event.STAGED_OUT, end)

    def _finish(self, process: Process, event: Event, end: End) -> None:
        process.advance(event)
        process.end = end
        log.info("process %s ended: exit code %s %s", process.key, end.exit_code, end.reason)
        if process.escalation.timer:
            process.escalation.timer.cancel()
        if process.inotify_watch is not None:
            self._context.inotify.remove(process.inotify_watch)
        self._context.runtime.remove(process.entry)
        if end.node_fault and process.entry.intent.spec:
            self._context.health.note_fault(process.entry.intent.spec.job, end.reason)
        try:
            process.entry.save_end(end)
        except OSError as error:
            # The next worker finds it out again, from what the supervisor left.
            log.error("process %s: its end cannot be saved: %s", process.key, error)
        self._on_ended()
        self._context.changed()
