"""The beat: the one exchange between worker and head; reports and log chunks up, orders down.

It is level-triggered: a beat tells all that is here and orders tell all that should be, so a
repeated, late or lost one does no harm. Log bytes follow the JSON raw, not encoded in it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState
from pit_protocol.wire import from_json, to_json

BEAT_TYPE = "application/vnd.pit.beat"
MAX_CHUNK = 256 * 1024  # bytes of log in one chunk
MAX_BEAT = 8 * 1024 * 1024  # bytes of one whole beat


class Wish(StrEnum):
    RUN = "run"  # should run; a spec comes along while the worker may not know it yet
    STOP = "stop"  # should end: SIGTERM, grace, SIGKILL
    FORGET = "forget"  # its end is on record; the worker may delete what it kept


class Runtime(StrEnum):
    """What a node runs processes by."""

    PROCESS = "process"  # as processes of the machine itself
    DOCKER = "docker"  # each in a container


class Pull(StrEnum):
    """When a node fetches an image."""

    MISSING = "missing"  # if it has none of that name
    ALWAYS = "always"  # each time, as far as the registry has another one
    NEVER = "never"


@dataclass(frozen=True)
class Resource:
    """One allocatable thing of a node, such as a GPU."""

    unit: str  # what identifies it on its node (a GPU's UUID)
    model: str  # as its driver names it
    memory_mib: int = 0
    pci: str = ""  # where it sits, such as 0000:01:00.0


@dataclass(frozen=True)
class Trouble:
    """Why a resource must not be given away at the moment."""

    unit: str
    reason: str


@dataclass(frozen=True)
class Inventory:
    cores: int
    memory_mib: int
    resources: tuple[Resource, ...] = ()


@dataclass(frozen=True)
class Hello:
    """A worker's first words: answered with a Welcome, which begins a new epoch of its node."""

    boot_id: str
    inventory: Inventory
    address: str  # where the node's processes are reached by others
    runtime: Runtime = Runtime.PROCESS
    overlay: str = ""  # a network across nodes that its containers may join


@dataclass(frozen=True)
class Welcome:
    node: str
    epoch: int
    cluster: str  # marks everything the worker leaves on its machine
    data_root: str
    hold_s: float  # how long the head holds a quiet beat


@dataclass(frozen=True)
class Usage:
    """How much of its GPUs a process uses, on the mean over all of them, in percent."""

    gpu_percent: float
    memory_percent: float


@dataclass(frozen=True)
class Report:
    """What a worker knows of one process; sent in every beat until the head says forget."""

    process: int
    attempt: int
    state: ProcessState
    log_size: int = 0  # bytes of output so far; final when ended
    exit_code: int | None = None
    signal: int | None = None
    killed_by: KilledBy | None = None
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    oom: bool = False  # the kernel ended something of it for lack of memory
    image: str = ""  # the exact image that ran, by its digest
    usage: Usage | None = None  # measured since the last report that had one


@dataclass(frozen=True)
class ChunkHead:
    """Where a stretch of output belongs; its bytes follow the JSON in the same order."""

    process: int
    attempt: int
    offset: int
    length: int
    at: float


@dataclass(frozen=True)
class Beat:
    epoch: int
    boot_id: str
    seen: int  # the newest revision of orders this worker has
    wait_s: float = 0.0  # how long the head may hold the answer while nothing changes
    reports: tuple[Report, ...] = ()
    chunks: tuple[ChunkHead, ...] = ()
    troubles: tuple[Trouble, ...] | None = None  # all there are; None: this beat says nothing of them
    trouble: str | None = None  # why the node itself takes no new processes; empty: it does; None: as above

    @property
    def is_whole(self) -> bool:
        """Whether it reports all that is on the node; one that only listens reports nothing."""
        return not self.wait_s


@dataclass(frozen=True)
class Account:
    """Whose files a process makes: numbers that the head gives to users and groups."""

    uid: int
    gid: int
    gids: tuple[int, ...] = ()  # of the user's groups


@dataclass(frozen=True)
class Container:
    """What a process that runs in a container needs beyond the others."""

    image: str
    pull: Pull
    network: str  # PRIVATE, HOST, or the name of an overlay network
    name: str  # by which the other processes of the job reach it on such a network
    shm_mib: int
    pids: int  # at most so many processes and threads inside


PRIVATE, HOST = "private", "host"  # networks: of the job alone on its node; the node's own


@dataclass(frozen=True)
class ProcessSpec:
    """All that a worker needs to start a process."""

    job: int
    rank: int
    group: int
    index: int
    command: str | None  # bash commands; None: the project's `.compute`
    env: dict[str, str]
    paths: dict[str, str]  # environment name -> path below the data root
    hostfile: str
    grace_s: float
    lease_s: float | None = None  # without word between node and head for so long, it ends by itself
    cpus: float | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None  # that it may fill, with its job's directory
    units: tuple[str, ...] = ()
    account: Account | None = None  # None: whoever the worker runs as
    container: Container | None = None  # on nodes that run processes in containers
    variables: dict[str, str] = field(
        default_factory=dict, repr=False
    )  # the user's own, for his command alone


@dataclass(frozen=True)
class Order:
    process: int
    attempt: int
    wish: Wish
    log_size: int = 0  # bytes of output the head has: where to go on shipping
    killed_by: KilledBy | None = None  # on whose behalf, with `stop`
    spec: ProcessSpec | None = None


@dataclass(frozen=True)
class Orders:
    revision: int  # an answer older than one already seen is dropped
    orders: tuple[Order, ...] = field(default=())


def pack_beat(beat: Beat, chunks: Sequence[bytes]) -> bytes:
    head = json.dumps(to_json(beat), separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(4, "big"), head, *chunks))


def unpack_beat(body: bytes) -> tuple[Beat, list[bytes]]:
    """The inverse of `pack_beat`; raises a Problem for anything that is no beat."""
    size = int.from_bytes(body[:4], "big")
    try:
        head: Any = json.loads(body[4 : 4 + size])
    except (ValueError, RecursionError):
        raise Problem("bad_beat", "the beat's head is not JSON", status=422) from None
    beat = from_json(Beat, head)
    position = 4 + size
    chunks = []
    for chunk in beat.chunks:
        if not 0 < chunk.length <= MAX_CHUNK or chunk.offset < 0:
            where = f"{chunk.length} bytes at {chunk.offset}"
            raise Problem("bad_beat", f"a chunk of {where} is out of bounds", status=422)
        chunks.append(body[position : position + chunk.length])
        position += chunk.length
    if position != len(body):
        raise Problem("bad_beat", f"the beat has {len(body)} bytes, not {position}", status=422)
    return beat, chunks
