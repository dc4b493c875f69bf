"""The beat: the only exchange between worker and head. Reports and log chunks go up, orders come down.

It is level-triggered: a beat has the complete actual state and its answer the complete desired
state, so a repeated, late or lost beat does no harm. Raw log bytes follow the JSON.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import field

from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState
from pit_protocol.wire import SECRET, Float, Int, Message, decode, encode

BEAT_TYPE = "application/vnd.pit.beat"
MAX_CHUNK = 256 * 1024  # log bytes in one chunk
MAX_BEAT = 8 * 1024 * 1024  # bytes in one beat
STALE_EPOCH = "stale_epoch"  # code of a refusal: another worker has taken over the node
UNKNOWN_SESSION = "unknown_session"  # and: the head's database is older than the session; say hello again


class OrderAction(StrEnum):
    RUN = "run"  # the order has a spec until the worker reports the process
    STOP = "stop"  # SIGTERM, grace period, SIGKILL
    FORGET = "forget"  # the head has recorded its end; the worker may delete its spool entry


class Runtime(StrEnum):
    """How a node runs processes."""

    PROCESS = "process"  # directly on the machine
    DOCKER = "docker"  # each in a container


class SessionKind(StrEnum):
    """What a session in a running process is for."""

    EXEC = "exec"  # run a command in it
    FORWARD = "forward"  # connect to its ports


class Pull(StrEnum):
    """When a node pulls an image."""

    MISSING = "missing"  # if the node does not have it
    ALWAYS = "always"  # each time, if the registry has a different one
    NEVER = "never"


class Resource(Message, frozen=True):
    """An allocatable device of a node, such as a GPU."""

    unit: str  # its id on the node (a GPU's UUID)
    model: str  # as its driver names it
    memory_mib: Int = 0
    pci: str = ""  # PCI address, such as 0000:01:00.0


class Trouble(Message, frozen=True):
    """Why a resource must not be allocated at the moment."""

    unit: str
    reason: str


class Inventory(Message, frozen=True):
    cores: Int
    memory_mib: Int
    resources: tuple[Resource, ...] = ()


class JoinRequest(Message, frozen=True):
    """What a machine says of itself when it joins with a code."""

    host: str = ""  # of a pilot: what its site calls the machine


class Hello(Message, frozen=True):
    """A worker's first message, and its next one when the head does not know its session.

    The answer, a Welcome, begins a new epoch of its node.
    """

    boot_id: str
    inventory: Inventory
    address: str  # where other nodes reach its processes
    runtime: Runtime = Runtime.PROCESS
    overlay: str = ""  # a network across nodes that its containers can join
    separates_users: bool = False  # it can run each process as its user; otherwise all run as `account`
    account: str = ""  # that the worker runs as
    trouble: str | None = None  # why the node takes no new processes; empty: it does; None: not known yet
    epoch: Int = 0  # of this worker's last session; 0: it has had none
    spool: str = ""  # a random name of the worker's spool
    count: Int = 0  # of the hellos from this spool: one that arrives after a later one is refused


class Welcome(Message, frozen=True):
    node: str
    epoch: Int
    cluster: str  # labels everything the worker creates on its machine
    data_root: str
    hold_s: Float  # how long the head holds a beat while nothing changes


class Usage(Message, frozen=True):
    """What a process uses; None: it was not measured."""

    gpu_percent: Float | None = None  # of the time, as the mean over its GPUs
    memory_percent: Float | None = None  # of the memory of its GPUs
    cpu_percent: Float | None = None  # of a core: 200 is two busy cores
    memory_mib: Float | None = None


class Report(Message, frozen=True):
    """The state of one process; sent in every beat until the head orders `forget`."""

    process: Int
    attempt: Int
    state: ProcessState
    log_size: Int = 0  # bytes of output so far; final when ended
    exit_code: Int | None = None
    signal: Int | None = None
    killed_by: KilledBy | None = None
    reason: str = ""
    started_at: Float | None = None
    ended_at: Float | None = None
    oom: bool = False  # the kernel killed part of it because memory ran out
    image: str = ""  # the exact image that ran, by its digest
    usage: Usage | None = None  # measured since the last report that had one
    node_fault: bool = False  # it ended before its command began, through no fault of the job


class ChunkHead(Message, frozen=True):
    """The position of a piece of output; the bytes follow the JSON in the same order."""

    process: Int
    attempt: Int
    offset: Int
    length: Int  # 0 only after a gap, at the end of the output
    at: Float
    gap: Int = 0  # bytes before it that the worker no longer has


class Beat(Message, frozen=True):
    epoch: Int
    boot_id: str
    seen: Int  # the newest revision of orders that this worker has
    wait_s: Float = 0.0  # how long the head may hold the answer while nothing changes
    reports: tuple[Report, ...] = ()
    chunks: tuple[ChunkHead, ...] = ()
    troubles: tuple[Trouble, ...] | None = None  # the complete list; None: unchanged
    trouble: str | None = None  # why the node takes no new processes; empty: it does; None: unchanged

    @property
    def is_whole(self) -> bool:
        """Whether it reports every process of the node; a beat that only waits for orders reports none."""
        return not self.wait_s


class Account(Message, frozen=True):
    """The owner of a process's files: ids that the head assigns to users and groups."""

    uid: Int
    gid: Int
    gids: tuple[Int, ...] = ()  # of the user's groups


class Container(Message, frozen=True):
    """Settings of a process that runs in a container."""

    image: str
    pull: Pull
    network: str  # PRIVATE, HOST, or the name of an overlay network
    name: str  # its hostname on an overlay network
    shm_mib: Int
    pids: Int  # limit of processes and threads inside


class Venv(Message, frozen=True):
    """The Python environment of a process, which it builds on its node or finds there."""

    file: str  # what it is built from, relative to SRC_DIR
    python: str  # a version; empty: any
    user: str  # only processes of this user may use it


PRIVATE, HOST = "private", "host"  # networks: one for the job on its node; the host's own


class ProcessSpec(Message, frozen=True):
    """Everything a worker needs to start a process."""

    job: Int
    rank: Int
    group: Int
    index: Int
    command: str | None  # bash commands; None: the project's `.compute`
    env: dict[str, str]
    paths: dict[str, str]  # environment name -> path below the data root
    hostfile: str
    grace_s: Float
    lease_s: Float | None = None  # the worker kills it after this long without contact to the head
    cpus: Float | None = None
    memory_mib: Int | None = None
    disk_mib: Int | None = None  # limit, together with its job's directory
    output_bytes: Int = 0  # of its output that are kept; 0: all
    units: tuple[str, ...] = ()
    account: Account | None = None  # None: the account of the worker
    container: Container | None = None  # if the node runs processes in containers
    venv: Venv | None = None
    variables: Annotated[dict[str, str], SECRET] = field(
        default_factory=dict
    )  # set by the user, only for the job's command


class TimeLimit(Message, frozen=True):
    """How long a job may run, and the signal that its processes get before the end."""

    limit_s: Float
    signal: str = ""  # such as USR1; empty: none
    before_s: Float = 0.0


class Order(Message, frozen=True):
    process: Int
    attempt: Int
    action: OrderAction
    log_size: Int = 0  # bytes of output the head has: where to continue
    killed_by: KilledBy | None = None  # with `stop`: on whose behalf
    spec: ProcessSpec | None = None
    time: TimeLimit | None = None  # with `run`: as it is now; None: none
    ran_s: Float | None = None  # with a time limit: for how long the job has run; None: it does not yet


class SessionOrder(Message, frozen=True):
    """Someone waits for a session in a process; repeated until the worker has opened its side of it."""

    id: str
    process: Int
    attempt: Int
    kind: SessionKind


class Orders(Message, frozen=True):
    revision: Int  # the worker drops an answer older than one it has seen
    orders: tuple[Order, ...] = ()
    sessions: tuple[SessionOrder, ...] = ()
    hold_s: Float | None = None  # how long the head may hold the next quiet beat; None: as it welcomed
    report_s: Float | None = None  # when to send the next full beat, even without changes; None: the same


def pack_beat(beat: Beat, chunks: Sequence[bytes]) -> bytes:
    head = encode(beat)
    return b"".join((len(head).to_bytes(4, "big"), head, *chunks))


def unpack_beat(body: bytes) -> tuple[Beat, list[bytes]]:
    """The inverse of `pack_beat`; raises a Problem if the body is not a valid beat."""
    size = int.from_bytes(body[:4], "big")
    beat = decode(Beat, body[4 : 4 + size])
    position = 4 + size
    chunks = []
    for chunk in beat.chunks:
        is_sound = 0 < chunk.length <= MAX_CHUNK or (chunk.length == 0 and chunk.gap)
        if not is_sound or not 0 <= chunk.gap <= chunk.offset:
            where = f"{chunk.length} bytes at {chunk.offset}"
            raise Problem("bad_beat", f"a chunk of {where} is out of bounds", status=422)
        chunks.append(body[position : position + chunk.length])
        position += chunk.length
    if position != len(body):
        raise Problem("bad_beat", f"the beat has {len(body)} bytes, not {position}", status=422)
    return beat, chunks
