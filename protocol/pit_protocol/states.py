"""The states of jobs, processes and nodes, and the tables of legal moves between them.

*State* is where something is now, *outcome* how it ended, *reason* (free text) why.
"""

from enum import StrEnum


class JobState(StrEnum):
    PREPARING = "preparing"  # the head builds its tree
    WAITING = "waiting"  # in the queue
    STARTING = "starting"  # placed; the nodes have their orders
    RUNNING = "running"  # at least one process runs
    STOPPING = "stopping"  # its processes are being stopped
    ENDED = "ended"  # final; outcome says how


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # by a person, or because a job that it waited for ended otherwise
    LOST = "lost"  # its node disappeared
    TIMED_OUT = "timed out"  # it ran for longer than its time limit


class JobEvent(StrEnum):
    ACCEPTED = "accepted"  # submitted; the first event of every job
    PREPARED = "prepared"
    REFUSED = "refused"  # could not be prepared, or its site does not take it
    PLACED = "placed"
    STARTED = "started"  # its first process runs
    STOP = "stop"  # by a person
    FAILED = "failed"  # one of its processes failed
    SETTLED = "settled"  # its last process ended
    UNMET = "unmet"  # a job that it waited for ended otherwise
    TIMED_OUT = "timed out"  # its time limit is over
    FINISHED = "finished"  # its first process has ended well, which is enough (`--until first`)
    BAD_RESULT = "bad result"  # what it left in $RESULT_FILE cannot be understood; it goes on
    STALLED = "stalled"  # none of its processes does anything; it goes on
    TIME_CHANGED = "time changed"  # somebody changed its time limit; it goes on
    REQUEUED = "requeued"  # its attempt has ended for another one, elsewhere if possible


class ProcessState(StrEnum):
    ASSIGNED = "assigned"  # placed on a node that may not have its order yet
    STARTING = "starting"  # the worker has accepted it
    RUNNING = "running"
    STOPPING = "stopping"  # ordered to stop
    ENDED = "ended"


class ProcessEvent(StrEnum):
    ASSIGNED = "assigned"
    TAKEN = "taken"
    STARTED = "started"
    STOP = "stop"
    ENDED = "ended"


class NodeState(StrEnum):
    NEW = "new"  # registered, never connected
    ONLINE = "online"
    OFFLINE = "offline"  # silent for longer than its lease
    DRAINING = "draining"  # set by an admin: takes no new processes, running ones continue
    MAINTENANCE = "maintenance"  # set by an admin: out of service, nothing runs there


class KilledBy(StrEnum):
    """Who killed a process that did not exit by itself."""

    USER = "user"  # `pit stop`
    JOB = "job"  # another process of the job failed, or was enough
    REBOOT = "reboot"  # its machine restarted
    WORKER = "worker"  # could not be started, or is unknown to its worker
    RUNTIME = "runtime"  # the container engine restarted
    LIMIT = "limit"  # it exceeded a limit
    STALL = "stall"  # its job did nothing any more
    TIME = "time"  # its job's time limit is over
    LEASE = "lease"  # its node had no contact with the head for too long
    NODE = "node"  # nobody saw it end: its node did not come back


JOB_MOVES: dict[tuple[JobState, JobEvent], JobState] = {
    (JobState.PREPARING, JobEvent.PREPARED): JobState.WAITING,
    (JobState.PREPARING, JobEvent.REFUSED): JobState.ENDED,
    (JobState.PREPARING, JobEvent.STOP): JobState.ENDED,
    (JobState.PREPARING, JobEvent.UNMET): JobState.ENDED,
    (JobState.WAITING, JobEvent.PLACED): JobState.STARTING,
    (JobState.WAITING, JobEvent.STOP): JobState.ENDED,
    (JobState.WAITING, JobEvent.UNMET): JobState.ENDED,
    (JobState.WAITING, JobEvent.REFUSED): JobState.ENDED,
    (JobState.WAITING, JobEvent.SETTLED): JobState.ENDED,  # an array whose elements were stopped one by one
    (JobState.STARTING, JobEvent.STARTED): JobState.RUNNING,
    (JobState.STARTING, JobEvent.STOP): JobState.STOPPING,
    (JobState.STARTING, JobEvent.FAILED): JobState.STOPPING,
    (JobState.STARTING, JobEvent.TIMED_OUT): JobState.STOPPING,
    (JobState.STARTING, JobEvent.FINISHED): JobState.STOPPING,
    (JobState.STARTING, JobEvent.SETTLED): JobState.ENDED,
    (JobState.STARTING, JobEvent.REQUEUED): JobState.WAITING,
    (JobState.RUNNING, JobEvent.STOP): JobState.STOPPING,
    (JobState.RUNNING, JobEvent.FAILED): JobState.STOPPING,
    (JobState.RUNNING, JobEvent.TIMED_OUT): JobState.STOPPING,
    (JobState.RUNNING, JobEvent.FINISHED): JobState.STOPPING,
    (JobState.RUNNING, JobEvent.STALLED): JobState.RUNNING,
    (JobState.PREPARING, JobEvent.TIME_CHANGED): JobState.PREPARING,
    (JobState.WAITING, JobEvent.TIME_CHANGED): JobState.WAITING,
    (JobState.STARTING, JobEvent.TIME_CHANGED): JobState.STARTING,
    (JobState.RUNNING, JobEvent.TIME_CHANGED): JobState.RUNNING,
    (JobState.STARTING, JobEvent.BAD_RESULT): JobState.STARTING,
    (JobState.RUNNING, JobEvent.BAD_RESULT): JobState.RUNNING,
    (JobState.STOPPING, JobEvent.BAD_RESULT): JobState.STOPPING,
    (JobState.RUNNING, JobEvent.SETTLED): JobState.ENDED,
    (JobState.RUNNING, JobEvent.REQUEUED): JobState.WAITING,
    (JobState.STOPPING, JobEvent.SETTLED): JobState.ENDED,
}

PROCESS_MOVES: dict[tuple[ProcessState, ProcessEvent], ProcessState] = {
    (ProcessState.ASSIGNED, ProcessEvent.TAKEN): ProcessState.STARTING,
    (ProcessState.ASSIGNED, ProcessEvent.STARTED): ProcessState.RUNNING,
    (ProcessState.ASSIGNED, ProcessEvent.STOP): ProcessState.STOPPING,
    (ProcessState.ASSIGNED, ProcessEvent.ENDED): ProcessState.ENDED,
    (ProcessState.STARTING, ProcessEvent.STARTED): ProcessState.RUNNING,
    (ProcessState.STARTING, ProcessEvent.STOP): ProcessState.STOPPING,
    (ProcessState.STARTING, ProcessEvent.ENDED): ProcessState.ENDED,
    (ProcessState.RUNNING, ProcessEvent.STOP): ProcessState.STOPPING,
    (ProcessState.RUNNING, ProcessEvent.ENDED): ProcessState.ENDED,
    (ProcessState.STOPPING, ProcessEvent.ENDED): ProcessState.ENDED,
}

# What `pit status` shows in its column S.
LETTERS: dict[JobState | Outcome, str] = {
    JobState.PREPARING: "PRE",
    JobState.WAITING: "WAI",
    JobState.STARTING: "STA",
    JobState.RUNNING: "RUN",
    JobState.STOPPING: "STG",
    Outcome.SUCCEEDED: "SUC",
    Outcome.FAILED: "FAI",
    Outcome.STOPPED: "STP",
    Outcome.LOST: "LOS",
    Outcome.TIMED_OUT: "TIM",
}


def letters(state: JobState, outcome: Outcome | None) -> str:
    """Three letters for a job's state, or its outcome once it has ended."""
    return LETTERS[outcome if state is JobState.ENDED and outcome else state]
