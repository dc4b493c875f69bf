"""The beat of a site's agent: allocations that it sees go up, those that the head wants come down.

Like the beat of a worker it is level-triggered: each says what is, and what should be.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from pit_protocol.wire import SECRET, Float, Int, Message

MAX_SITE_BEAT = 4 * 1024 * 1024  # bytes in one beat
MAX_OUTPUT = 2000  # characters of an allocation's output that the head keeps


class SiteKind(StrEnum):
    """What gives out allocations at a site."""

    SLURM = "slurm"


class AllocationState(StrEnum):
    """Where an allocation is, in words that all kinds of sites share."""

    WANTED = "wanted"  # the head wants it; the site has not been seen with it
    PENDING = "pending"  # the site has it in its queue
    RUNNING = "running"
    ENDED = "ended"


class SeenAllocation(Message, frozen=True):
    """An allocation as its site lists it."""

    name: str  # pit-<cluster>-<job>-<attempt>, and .2 or .3 for a further try
    id: str  # as the site numbers it
    state: AllocationState
    word: str = ""  # the site's own word for its state
    reason: str = ""  # why it waits, or how it ended, in the site's words
    starts_at: Float | None = None  # the site's estimate
    ends_at: Float | None = None  # by its time limit
    hosts: str = ""  # names of its machines, as the site writes them
    output: str = ""  # the end of what its pilots wrote, once it has ended


class Refusal(Message, frozen=True):
    """An allocation that the site will never give."""

    name: str
    text: str  # the site's words


class SiteBeat(Message, frozen=True):
    session: str  # random, of one run of an agent
    begins: bool = False  # the first beat of that run: an older agent is told to exit
    account: str = ""  # that the agent and its allocations run as
    seen: Int = 0  # the newest revision of wishes that it has
    wait_s: Float = 0.0  # how long the head may hold the answer while nothing changes
    allocations: tuple[SeenAllocation, ...] | None = None  # all of this cluster; None: the site does not say
    refusals: tuple[Refusal, ...] = ()
    trouble: str = ""  # why the site does not answer, or takes nothing


class GpuNeed(Message, frozen=True):
    kind: str  # empty: any
    count: Int


class Wish(Message, frozen=True):
    """An allocation that should be there: asked for if the site does not have one of its name."""

    name: str
    nodes: Int
    cores: Int  # this and the next two: of each node
    memory_mib: Int | None
    gpus: tuple[GpuNeed, ...]
    time_s: Float
    notice_s: Float  # how long before the end of its time the pilots are told to leave
    keep_s: Float = 0.0  # how long they wait for another job
    options: dict[str, str] = field(default_factory=dict)  # of the site: partition, account, qos
    codes: Annotated[tuple[str, ...], SECRET] = ()  # join codes, one for each node; none once it was seen


class Wishes(Message, frozen=True):
    """All allocations that should be there; the agent ends every other one of this cluster."""

    site: str
    cluster: str
    revision: Int
    wishes: tuple[Wish, ...] = ()
    hold_s: Float = 10.0  # how long to wait for news if nothing is under way
