"""Why a job waits, or how it came where it is."""

from msgspec import field

from pit_protocol.answers.jobs import FailedElement, JobSummary
from pit_protocol.wire import Answer, Float, Int

# By which factor a job comes first, in the order in which they count.
PRIORITY, GROUP_USE, USER_USE, ARRIVAL = "priority", "group use", "user use", "arrival"


class OtherJob(Answer, frozen=True):
    """Another job; one that the caller may not see has no number."""

    number: Int | None
    user: str


class NodeFree(Answer, frozen=True):
    node: str
    free: Float


class Missing(Answer, frozen=True):
    """What the processes of a group need and where they may run do not find free."""

    kind: str  # of GPU, `cpu` in cores, `mem` in GiB, or `slot` for a place for a process
    wanted: Float  # by all processes of the group together
    each: Float  # by one process
    free: Float
    where: str  # `@n0`; empty: anywhere
    nodes: list[NodeFree]  # the first that have some free


class Holder(Answer, frozen=True):
    """A running job that holds what is missing."""

    job: OtherJob
    kind: str
    amount: Float
    nodes: list[str]
    until: Float | None  # when it is planned to end; None: nobody knows, its node is silent
    has_limit: bool  # it ends then at the latest


class Ahead(Answer, frozen=True):
    """The jobs that come first by one factor."""

    factor: str
    count: Int
    jobs: list[OtherJob]  # the first of them


class SmallerRequest(Answer, frozen=True):
    """A request that the scheduler would start now."""

    request: str
    change: str  # what is less: `with fewer processes`
    time: str = ""  # with this time limit; empty: with that of the job


class Queued(Answer, frozen=True):
    """What a waiting job waits for, from the pass of the scheduler that decided it."""

    as_of: Float | None  # when that pass was; None: none has considered the job
    reason: str = ""
    missing: list[Missing] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)  # those that end first
    more_holders: Int = 0
    place: Int | None = None  # in the queue, from 1 on; None: it has none while something else holds it
    length: Int = 0  # of the queue
    ahead: list[Ahead] = field(default_factory=list)
    smaller: list[SmallerRequest] = field(default_factory=list)
    all_tried: bool = True  # False: there was no time to try all smaller requests


class RequestCheck(Answer, frozen=True):
    """What a request means, and whether a job with it could start now."""

    request: str  # in its canonical form
    words: list[str]  # a sentence for each group of processes
    possible: bool  # on an idle cluster
    starts_now: bool = False  # if nothing else waited
    nodes: list[str] = field(default_factory=list)  # where
    reason: str = ""  # why not
    waiting: Int = 0  # jobs that wait already


class Failure(Answer, frozen=True):
    """The process that failed first."""

    rank: Int
    node: str
    reason: str
    lines: list[str]  # the last of its output


class Story(Answer, frozen=True):
    """What happened to a job that no longer waits."""

    waited_s: Float | None  # in the queue, before it was placed; None: it was never placed
    waited_for: str  # at the end of that time; empty: that is not known, or for nothing
    started_at: Float | None
    ran_s: Float | None
    processes: Int
    nodes: list[str]
    ends_at: Float | None  # by its time limit, if it runs
    failure: Failure | None = None


class Why(Answer, frozen=True):
    """Why a job is in its state; `queued` is there for waiting jobs, `story` for the others.

    An array of which some elements wait and others run has both: `queued` is about its next element.
    """

    job: JobSummary
    is_mine: bool
    queued: Queued | None = None
    story: Story | None = None
    failed: list[FailedElement] = field(default_factory=list)  # of an array, the first
