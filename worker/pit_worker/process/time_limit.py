"""Time limits: a process is warned and stopped on time, whether the head is there or not.

Time is counted by the clock since boot, which nobody sets. It began with the first instruction of the job:
that of this process, or an earlier one of another process, which the head tells of in its orders.
"""

import logging
import signal
from collections.abc import Callable
from functools import partial

from pit_protocol.durations import render_duration
from pit_protocol.messages.beat import TimeLimit
from pit_worker.process.context import Context
from pit_worker.process.process import Process
from pit_worker.process.states import State
from pit_worker.spool.entry import Clock
from pit_worker.spool.lease import since_boot

LONGEST_PAUSE_S = 30.0  # between two looks: timers stand still while a machine sleeps
PRECISION_S = 1.0  # a begin that is not earlier by more is not saved

log = logging.getLogger(__name__)


class TimeKeeper:
    def __init__(self, context: Context, on_over: Callable[[Process, str], None]) -> None:
        """`on_over` is called for a process whose time is over, with the reason."""
        self._context = context
        self._on_over = on_over

    def set(self, process: Process, limit: TimeLimit | None, ran_s: float | None = None) -> None:
        """Take in the limit of an order; `ran_s` is for how long the job has run by then."""
        clock = process.clock
        if limit != clock.limit:
            clock = Clock(limit, clock.began_at)
        if ran_s is not None:
            # Not before it was taken here: a head whose clock jumps must not end it.
            began_at = max(since_boot() - ran_s, process.taken_at)
            known_at = self._began_at(process)
            if known_at is None or began_at < known_at - PRECISION_S:
                clock = Clock(clock.limit, began_at, is_warned=clock.is_warned)
        if clock != process.clock:
            self._save(process, clock)
            self.watch(process)

    def watch(self, process: Process) -> None:
        """Warn and stop it on time, if it runs; until then, look again."""
        if process.time_timer:
            process.time_timer.cancel()
            process.time_timer = None
        limit = process.clock.limit
        if limit is None or process.state is not State.RUNNING or process.stop:
            return
        left_s = (self._began_at(process) or process.taken_at) + limit.limit_s - since_boot()
        if left_s <= 0:
            self._on_over(process, f"its time limit of {render_duration(limit.limit_s)} is over")
            return
        warn_in_s = left_s - limit.before_s if limit.signal and not process.clock.is_warned else left_s
        if warn_in_s <= 0:
            self._warn(process, limit)
            warn_in_s = left_s
        pause_s = min(warn_in_s, left_s, LONGEST_PAUSE_S)
        process.time_timer = self._context.loop.after(pause_s, partial(self.watch, process))

    def _began_at(self, process: Process) -> float | None:
        known = (process.entry.began_at(), process.clock.began_at)
        return min((at for at in known if at is not None), default=None)

    def _warn(self, process: Process, limit: TimeLimit) -> None:
        """Send the signal once, also if this worker is killed after it."""
        self._save(process, Clock(limit, process.clock.began_at, is_warned=True))
        reached = self._context.runtime.warn(process.entry, signal.Signals[f"SIG{limit.signal}"])
        log.info("process %s: %s was sent to %d programs", process.key, limit.signal, reached)

    def _save(self, process: Process, clock: Clock) -> None:
        process.clock = clock
        try:
            process.entry.save_clock(clock)
        except OSError as error:
            # It counts all the same; only the next worker has to wait for the head to know of it.
            log.error("process %s: its time limit cannot be saved: %s", process.key, error)
