"""Ending a process by signals: SIGTERM, and SIGKILL after its grace period, until nothing of it is left."""

import logging
import signal
import time
from collections.abc import Callable
from functools import partial

from pit_protocol.states import KilledBy
from pit_worker.process.context import Context
from pit_worker.process.process import Process
from pit_worker.process.states import PAST_STOPPING, Event, State
from pit_worker.spool.entry import Stop

LINGER_S = 0.05  # between the end of a command and the search for what it left
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 1.0  # between two signals; each pause is twice the last
# Its tree has not been found empty yet, so there is something to signal.
SIGNALLED = frozenset({State.RUNNING, State.LEFTOVERS, State.COLLECTING_EXIT, State.KILLING_LEFTOVERS})

log = logging.getLogger(__name__)


class Stopper:
    def __init__(self, context: Context, on_tree_gone: Callable[[Process], None]) -> None:
        """`on_tree_gone` is called for a process whose exit is known and of which nothing is left."""
        self._context = context
        self._on_tree_gone = on_tree_gone

    def request(self, process: Process, killed_by: KilledBy | None, reason: str) -> Stop | None:
        """Put a request to stop on record; None if the process has one, or is past stopping."""
        is_late = process.state in PAST_STOPPING or self._context.runtime.has_exit_status(process.entry)
        if is_late or process.stop:
            return None
        process.stop = stop = Stop(time.time(), killed_by, reason)
        try:
            process.entry.save_stop(stop)
        except OSError as error:
            # It is stopped all the same; only the next worker would not know who asked.
            log.error("process %s: the request to stop cannot be saved: %s", process.key, error)
        self._context.failpoints.reach("after-stop")
        return stop

    def terminate(self, process: Process, since: float) -> None:
        """Send SIGTERM to the whole tree, and SIGKILL when the grace period that began at `since` is over."""
        spec = process.entry.intent.spec
        grace_s = spec.grace_s if spec else 0.0
        # Negative where an earlier worker has tried already.
        rest_s = min(grace_s, since + grace_s - time.time())
        process.escalation.kill_at = time.monotonic() + rest_s
        self._context.runtime.signal(process.entry, signal.SIGTERM)
        self._escalate_in(max(0.0, rest_s), process)

    def end_leftovers(self, process: Process) -> None:
        """The command has ended: kill what it left behind, because that keeps the output open."""
        process.advance(Event.COMMAND_ENDED)
        if process.stop is None:
            process.escalation.kill_at = time.monotonic()
            # Mostly nothing is left, and the process ends by itself in a moment.
            self._escalate_in(LINGER_S, process)

    def kill_leftovers(self, process: Process) -> None:
        """Its exit is known: kill what is left of it, now unless it was given a grace period."""
        if process.stop is None:
            process.escalation.kill_at = time.monotonic()
        self._escalate(process)

    def _escalate(self, process: Process) -> None:
        """Signal what is left of a process; repeats itself by timer until that is nothing."""
        if process.state not in SIGNALLED:
            return
        escalation = process.escalation
        rest_s = (escalation.kill_at or 0.0) - time.monotonic()
        left = self._context.runtime.signal(process.entry, signal.SIGKILL if rest_s <= 0 else 0)
        if left == 0 and process.state is State.KILLING_LEFTOVERS:
            process.advance(Event.TREE_GONE)
            self._on_tree_gone(process)
            return
        escalation.rounds += 1
        if left and rest_s <= -self._context.timing.unkillable_s and not escalation.is_unkillable:
            escalation.is_unkillable = True
            job = process.entry.intent.spec.job if process.entry.intent.spec else "unknown"
            log.error("process %s of job %s: %d of its tree cannot be killed", process.key, job, left)
            self._context.changed()
        pause_s = min(FIRST_PAUSE_S * 2 ** min(escalation.rounds, 8), LONGEST_PAUSE_S)
        self._escalate_in(min(pause_s, rest_s) if rest_s > 0 else pause_s, process)

    def _escalate_in(self, delay_s: float, process: Process) -> None:
        if process.escalation.timer:
            process.escalation.timer.cancel()
        process.escalation.timer = self._context.loop.after(delay_s, partial(self._escalate, process))
