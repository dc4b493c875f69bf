"""Where a process is on this node, and the moves between: a table, as the head has one for jobs.

Stopping is not a state: a process may be asked to stop in most of them, and then goes the same way to its
end, only sooner. `Process.stop` holds the request, `Process.escalation` how far the signals have got.
"""

from collections import deque
from enum import StrEnum

STORY_LENGTH = 12  # moves that an IllegalMove recounts


class State(StrEnum):
    QUEUED = "queued"  # taken, waits to be started (again)
    STAGING_IN = "staging in"  # its files are being fetched
    STARTING = "starting"  # the runtime is starting it
    RUNNING = "running"
    LEFTOVERS = "leftovers"  # its command has ended, but not all that the command started
    COLLECTING_EXIT = "collecting exit"  # it has ended; the runtime finds out how
    KILLING_LEFTOVERS = "killing leftovers"  # its output is complete; what it left behind is being killed
    RELEASING_GPUS = "releasing GPUs"  # nothing of it is left, but its GPUs may not be idle yet
    STAGING_OUT = "staging out"  # what it wrote is being sent to the head
    ENDED = "ended"  # final; on record, until the head says to forget it


class Event(StrEnum):
    DEQUEUED = "dequeued"
    STAGED_IN = "staged in"
    START_FAILED = "start failed"  # worth another try
    START_REFUSED = "start refused"  # not worth one
    STARTED = "started"
    ADOPTED = "adopted"  # found running: started by an earlier worker, or by a try that seemed to fail
    CANCELLED = "cancelled"  # stopped before anything had started
    COMMAND_ENDED = "command ended"
    EXITED = "exited"
    STILL_RUNNING = "still running"  # what had exited was not the process itself
    EXIT_COLLECTED = "exit collected"
    TREE_GONE = "tree gone"  # nothing that it started is left
    GPUS_RELEASED = "GPUs released"
    REBOOTED = "rebooted"  # the node was, since it was taken
    STAGED_OUT = "staged out"


# Not yet running, as far as this worker knows.
WAITING = frozenset({State.QUEUED, State.STAGING_IN, State.STARTING})
# The runtime has it, or is finding out how it ended.
LIVE = frozenset({State.RUNNING, State.LEFTOVERS, State.COLLECTING_EXIT})
# Stopping would change nothing: it has ended, and how is known or about to be.
PAST_STOPPING = frozenset({State.COLLECTING_EXIT, State.STAGING_OUT, State.ENDED})

MOVES: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.DEQUEUED): State.STAGING_IN,
    (State.QUEUED, Event.START_REFUSED): State.ENDED,
    (State.QUEUED, Event.CANCELLED): State.ENDED,
    (State.QUEUED, Event.ADOPTED): State.RUNNING,
    (State.QUEUED, Event.EXITED): State.COLLECTING_EXIT,
    (State.QUEUED, Event.REBOOTED): State.STAGING_OUT,
    (State.STAGING_IN, Event.STAGED_IN): State.STARTING,
    (State.STAGING_IN, Event.START_FAILED): State.QUEUED,
    (State.STAGING_IN, Event.START_REFUSED): State.ENDED,
    (State.STAGING_IN, Event.CANCELLED): State.ENDED,
    (State.STAGING_IN, Event.ADOPTED): State.RUNNING,
    (State.STAGING_IN, Event.EXITED): State.COLLECTING_EXIT,
    (State.STARTING, Event.STARTED): State.RUNNING,
    (State.STARTING, Event.START_FAILED): State.QUEUED,
    (State.STARTING, Event.START_REFUSED): State.ENDED,
    (State.STARTING, Event.CANCELLED): State.ENDED,
    (State.STARTING, Event.ADOPTED): State.RUNNING,
    (State.STARTING, Event.EXITED): State.COLLECTING_EXIT,
    (State.RUNNING, Event.COMMAND_ENDED): State.LEFTOVERS,
    (State.RUNNING, Event.EXITED): State.COLLECTING_EXIT,
    (State.LEFTOVERS, Event.EXITED): State.COLLECTING_EXIT,
    (State.COLLECTING_EXIT, Event.STILL_RUNNING): State.RUNNING,
    (State.COLLECTING_EXIT, Event.EXIT_COLLECTED): State.KILLING_LEFTOVERS,
    (State.KILLING_LEFTOVERS, Event.TREE_GONE): State.RELEASING_GPUS,
    (State.RELEASING_GPUS, Event.GPUS_RELEASED): State.STAGING_OUT,
    (State.STAGING_OUT, Event.STAGED_OUT): State.ENDED,
}


class IllegalMove(Exception):
    """This event leads nowhere from this state; the text has the moves before it."""


class Lifecycle:
    """The state of one process, which only `advance` changes."""

    def __init__(self, state: State = State.QUEUED) -> None:
        """`state` is QUEUED, or ENDED for a process whose end is on record."""
        self.state = state
        self._story: deque[str] = deque([state], maxlen=2 * STORY_LENGTH + 1)

    def advance(self, event: Event) -> State:
        """Move along an event, and give the new state; raises IllegalMove and changes nothing else."""
        target = MOVES.get((self.state, event))
        if target is None:
            raise IllegalMove(f"`{event}` leads nowhere from `{self.state}`; so far: {self.story()}")
        self._story += (event, target)
        self.state = target
        return target

    def story(self) -> str:
        """The latest moves, such as `queued -dequeued-> staging in`."""
        words = list(self._story)
        moves = (f" -{event}-> {state}" for event, state in zip(words[1::2], words[2::2], strict=True))
        return words[0] + "".join(moves)
