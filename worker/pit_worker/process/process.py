"""One process as the worker sees it, and the report of it for the head."""

from dataclasses import dataclass, field

from pit_protocol.messages.beat import Report
from pit_protocol.states import ProcessState
from pit_worker.loop import Timer
from pit_worker.process.output import Output
from pit_worker.process.states import LIVE, WAITING, Event, IllegalMove, Lifecycle, State
from pit_worker.spool.entry import Clock, End, Entry, Key, Stop
from pit_worker.spool.lease import since_boot

MAX_REASON = 1000


@dataclass
class Escalation:
    """How far ending a process by signals has got."""

    kill_at: float | None = None  # by the monotonic clock: from then on SIGKILL is used
    timer: Timer | None = None  # for the next signal
    rounds: int = 0
    is_unkillable: bool = False  # something of it has outlived SIGKILL for long


@dataclass(eq=False)
class Process:
    """Belongs to the main loop: no other thread reads or writes it."""

    entry: Entry
    started_at: float | None = None
    stop: Stop | None = None  # the request to stop that it obeys
    end: End | None = None
    output: Output = field(init=False)
    lifecycle: Lifecycle = field(init=False)
    escalation: Escalation = field(default_factory=Escalation)
    descriptor: int | None = None  # readable when it has ended
    inotify_watch: int | None = None  # on its directory
    start_failures: int = 0
    failing_since: float | None = None  # by the monotonic clock: when its start was first tried in vain
    waits_for: str = ""  # why it has not started yet, or why what it wrote is not on the head yet
    image: str = ""  # the digest of its container's image
    clock: Clock = field(default_factory=Clock)  # its time limit
    taken_at: float = field(default_factory=since_boot)
    time_timer: Timer | None = None  # for the next look at its time limit

    def __post_init__(self) -> None:
        self.output = Output(self.entry.output)
        self.lifecycle = Lifecycle(State.ENDED if self.end else State.QUEUED)

    @property
    def key(self) -> Key:
        return self.entry.key

    @property
    def state(self) -> State:
        return self.lifecycle.state

    @property
    def is_waiting(self) -> bool:
        """Taken but not yet started."""
        return self.state in WAITING

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    def advance(self, event: Event) -> None:
        """Move along an event; raises IllegalMove."""
        try:
            self.lifecycle.advance(event)
        except IllegalMove as error:
            raise IllegalMove(f"process {self.key}: {error}") from None

    def report(self, log_size: int, *, may_end: bool) -> Report:
        """The report for a beat; `may_end`: with this beat the head has all output."""
        if self.end is None or not may_end:
            has_reason = self.is_waiting or self.state is State.STAGING_OUT
            stopped = self.stop.reason if self.stop else ""
            return Report(
                *self.key,
                self._reported_state(),
                log_size,
                killed_by=self.stop.killed_by if self.stop else None,
                reason=(self.waits_for if has_reason else stopped)[:MAX_REASON],
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
            node_fault=self.end.node_fault,
            image=self.image,
        )

    def _reported_state(self) -> ProcessState:
        if self.stop:
            return ProcessState.STOPPING
        return ProcessState.STARTING if self.started_at is None else ProcessState.RUNNING
