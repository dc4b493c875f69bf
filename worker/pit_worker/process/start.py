"""The start of a process: queue, stage-in, runtime; or the adoption of one that runs already."""

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from pit_worker.process.context import Context
from pit_worker.process.end import Finisher
from pit_worker.process.process import Process
from pit_worker.process.states import Event, State
from pit_worker.process.stop import Stopper
from pit_worker.spool.environment import NodeFault, StartRefused

STARTS_PER_TURN = 4  # of the loop, so that a large order does not delay everything else
LONGEST_PAUSE_S = 15.0  # between two tries to start a process
UNKNOWN = "the worker does not know this process"
MAX_CRASHES = 3  # of the worker, while it starts a process
CRASHES = f"the worker crashed {MAX_CRASHES} times while it started this process"

log = logging.getLogger(__name__)


class Starter:
    def __init__(
        self,
        context: Context,
        stopper: Stopper,
        finisher: Finisher,
        on_running: Callable[[Process], None],
        on_data_lost: Callable[[Process], None],
    ) -> None:
        """`on_data_lost` is called for a running process that has lost its data directories."""
        self._context = context
        self._stopper = stopper
        self._finisher = finisher
        self._on_running = on_running
        self._on_data_lost = on_data_lost
        self._queue: deque[Process] = deque()
        self._is_open = False

    def open(self) -> None:
        """From now on processes may start: the head has said where their files are."""
        self._is_open = True
        self._context.loop.after(0, self._start_some)

    def enqueue(self, process: Process) -> None:
        if not self._queue and self._is_open:
            self._context.loop.after(0, self._start_some)
        self._queue.append(process)

    def resume(self, process: Process) -> None:
        """Carry on with a process that may have been started before: adopt it, end it, or queue it."""
        entry = process.entry
        if entry.intent.boot_id != self._context.boot_id:
            self._finisher.end_by_reboot(process)
        elif entry.intent.spec is None:
            self._finisher.refuse(process, StartRefused(UNKNOWN))
        elif not entry.is_claimed() and entry.count_tries() < MAX_CRASHES:
            self.enqueue(process)
        elif entry.prevent_start():
            self._finisher.refuse(process, StartRefused(CRASHES))
        elif (descriptor := self._context.runtime.adopt(entry)) is None:
            self._finisher.collect_exit(process)
        else:
            process.advance(Event.ADOPTED)
            self.watch(process, descriptor)
            if process.stop:
                self._stopper.terminate(process, process.stop.at)

    def cancel(self, process: Process) -> None:
        """Stop one that waits; it ends as never started if that can still be prevented."""
        if process.entry.claim():
            self._finisher.cancel(process)
        else:
            self.resume(process)

    def watch(self, process: Process, descriptor: int) -> None:
        """It runs: watch for its end, its output, and the loss of its data."""
        process.descriptor = descriptor
        process.image = process.entry.image()
        self._context.loop.watch(descriptor, partial(self._finisher.collect_exit, process))
        self._context.staging.watch(process.entry, partial(self._on_data_lost, process))
        self._watch_output(process)
        self._on_running(process)
        self._context.changed()

    def _start_some(self) -> None:
        for _ in range(min(STARTS_PER_TURN, len(self._queue))):
            process = self._queue.popleft()
            # One that was stopped while it was queued is still in the queue.
            if process.state is State.QUEUED:
                self._start(process)
        if self._queue:
            self._context.loop.after(0, self._start_some)

    def _start(self, process: Process) -> None:
        if process.stop:
            self.cancel(process)
            return
        process.advance(Event.DEQUEUED)
        if process.start_failures == 0:
            process.entry.note_try()
        self._watch_output(process)
        self._context.staging.stage_in(process.entry, partial(self._on_staged_in, process))

    def _on_staged_in(self, process: Process, error: StartRefused | OSError | None) -> None:
        if process.state is not State.STAGING_IN:
            return  # stopped meanwhile
        if error is not None:
            self._on_failed(process, error)
            return
        process.advance(Event.STAGED_IN)
        self._context.runtime.start(process.entry, partial(self._on_started, process))

    def _on_started(self, process: Process, outcome: int | StartRefused | OSError) -> None:
        if process.state is not State.STARTING:
            # Stopped meanwhile, and perhaps adopted for that.
            if isinstance(outcome, int):
                os.close(outcome)
            return
        if not isinstance(outcome, int):
            self._on_failed(process, outcome)
            return
        self._context.failpoints.reach("after-start")
        log.info("process %s started", process.key)
        process.started_at = process.entry.started_at() or time.time()
        process.advance(Event.STARTED)
        self._context.health.note_start()
        self.watch(process, outcome)

    def _on_failed(self, process: Process, error: StartRefused | OSError) -> None:
        if isinstance(error, StartRefused):
            self._finisher.refuse(process, error)
            return
        process.failing_since = process.failing_since or time.monotonic()
        has_patience = time.monotonic() - process.failing_since < self._context.timing.start_patience_s
        if not has_patience and process.entry.prevent_start():
            self._finisher.refuse(process, NodeFault(str(error)))
            return
        # It may run or not; because of the claim another try cannot start it twice.
        log.error("process %s: not started yet: %s; trying again", process.key, error)
        process.advance(Event.START_FAILED)
        process.start_failures += 1
        # The first part is for the user, the rest for the admin of the node.
        why = str(error).partition(": ")[0]
        if why != process.waits_for:
            process.entry.write_line(f"pit: not started yet: {why}; trying again")
        process.waits_for = why
        pause_s = min(process.start_failures, LONGEST_PAUSE_S)
        self._context.loop.after(pause_s, partial(self.enqueue, process))

    def _watch_output(self, process: Process) -> None:
        if process.inotify_watch is None:
            try:
                process.inotify_watch = self._context.inotify.add(process.entry.path)
            except OSError as error:
                log.warning("process %s: its output is read at intervals only: %s", process.key, error)
