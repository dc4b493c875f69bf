"""One process as the worker sees it, and the report it makes of it."""

import time
from dataclasses import dataclass, field, replace

from pit_protocol.beat import Report
from pit_protocol.states import KilledBy, ProcessState
from pit_worker.entry import End, Entry, Key, Stop
from pit_worker.loop import Timer
from pit_worker.output import Output

MAX_REASON = 1000
NO_ROOM = "its node's disk is full: how it ended could not be written down"


@dataclass(eq=False)
class Process:
    """Belongs to the main loop: no other thread reads or writes it."""

    entry: Entry
    output: Output = field(init=False)
    descriptor: int | None = None  # readable when it has ended
    tail: int | None = None  # the watch on its files
    started_at: float | None = None
    is_over: bool = False  # its command has ended, but not all that the command started
    is_settling: bool = False  # it has ended, and how is being found out
    has_ended: bool = False  # and all its output is written down
    is_vacating: bool = False  # nothing of it is left, and its GPUs are waited for
    is_delivering: bool = False  # what it wrote is on its way to the head
    stop: Stop | None = None
    kill_at: float | None = None  # by the monotonic clock: from when on SIGKILL is used
    end: End | None = None
    timer: Timer | None = None
    presses: int = 0
    is_stubborn: bool = False  # something of it has outlasted SIGKILL for long
    tries: int = 0  # to start it
    lack: str = ""  # why the last one did not succeed, or what it wrote is not on the head
    image: str = ""  # by its digest, of a container

    def __post_init__(self) -> None:
        self.output = Output(self.entry.output)

    @property
    def key(self) -> Key:
        return self.entry.key

    @property
    def is_waiting(self) -> bool:
        """Taken but not yet started."""
        is_under_way = self.descriptor is not None or self.is_settling or self.has_ended or self.is_delivering
        return not is_under_way and self.end is None

    @property
    def is_running(self) -> bool:
        return self.started_at is not None and not self.has_ended and self.end is None

    def report(self, log_size: int, *, is_told: bool) -> Report:
        """What to say of it; `is_told`: with this beat the head has all output, so it may end."""
        if self.end is None or not is_told:
            reason = self.lack[:MAX_REASON] if self.is_waiting or self.is_delivering else ""
            return Report(
                *self.key,
                self._state(),
                log_size,
                reason=reason,
                started_at=self.started_at,
                image=self.image,
            )
        return Report(
            *self.key,
            ProcessState.ENDED,
            log_size,
            exit_code=self.end.exit_code,
            signal=self.end.signal,
            killed_by=self.end.killed_by,
            reason=self.end.reason[:MAX_REASON],
            started_at=self.started_at,
            ended_at=self.end.ended_at,
            oom=self.end.oom,
            image=self.image,
        )

    def end_by_itself(self) -> End:
        """The end that the engine or its exit file tells, or the lack of both."""
        end = self._end_by_itself()
        spec = self.entry.intent.spec
        if self.stop or not spec or not self.entry.has_expired():
            return end
        reason = f"its node had no word with the head for {spec.lease_s:g} s"
        return replace(end, killed_by=KilledBy.LEASE, reason=reason)

    def _end_by_itself(self) -> End:
        killed_by = self.stop.killed_by if self.stop else None
        if verdict := self.entry.verdict():
            return replace(verdict, killed_by=killed_by, reason=self.stop.reason) if self.stop else verdict
        code = self.entry.exit_code()
        if code is None and not self.stop and self.entry.has_no_room():
            return End(time.time(), killed_by=KilledBy.WORKER, reason=NO_ROOM)
        if code is None:
            reason = self.stop.reason if self.stop else "its supervisor was killed"
            return End(time.time(), signal=9, killed_by=killed_by, reason=reason)
        ended_at = self.entry.exited_at() or time.time()
        # The shell's way to say that a signal ended the command.
        signal = code - 128 if 128 < code <= 128 + 64 else None
        reason = self.stop.reason if self.stop else ""
        return End(ended_at, exit_code=code, signal=signal, killed_by=killed_by, reason=reason)

    def _state(self) -> ProcessState:
        if self.stop:
            return ProcessState.STOPPING
        return ProcessState.STARTING if self.started_at is None else ProcessState.RUNNING
