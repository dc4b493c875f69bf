"""Jobs: summaries, records, `pit status`, logs, GPU use, and what differs between two of them."""

from typing import Any

from msgspec import field

from pit_protocol.answers.files import TrashEntry
from pit_protocol.answers.queue import EstimateErrors
from pit_protocol.arrays.numbers import element_number, job_name
from pit_protocol.job_options import JobOptions
from pit_protocol.messages.submission import Snapshot
from pit_protocol.wire import Answer, Float, Int

# Headers of a part of the raw log: the offset after it, and `yes` if nothing follows.
LOG_OFFSET, LOG_ENDED = "Pit-Log-Offset", "Pit-Log-Ended"


class ArrayProgress(Answer, frozen=True):
    """How many elements of an array are where."""

    size: Int
    waiting: Int
    running: Int  # or about to
    succeeded: Int
    failed: Int  # lost and timed out ones included
    stopped: Int


class FailedElement(Answer, frozen=True):
    index: Int
    outcome: str
    reason: str


class ArrayElement(Answer, frozen=True):
    """An element of an array that has begun, or a job that is not an array."""

    index: Int | None
    state: str
    outcome: str | None
    reason: str
    since: Float
    sweep: dict[str, str]  # its values
    results: dict[str, Any]  # what it wrote to $RESULT_FILE: numbers, texts, truth values and null


class ElementList(Answer, frozen=True):
    elements: list[ArrayElement]
    number: Int  # of the array or job


class JobSummary(Answer, frozen=True):
    """A row of a list of jobs."""

    number: Int  # of an element: that of its array
    index: Int | None  # of an element
    elements: ArrayProgress | None  # of an array
    title: str
    user: str
    request: str
    state: str
    outcome: str | None
    letters: str  # three, as `pit status` shows them
    reason: str  # why it ended, what it waits for, or which of its nodes is silent
    created_at: Float
    since: Float  # when it came into its state
    starts: tuple[Float, Float] | None  # of a waiting job: not before, not after; None: not estimated
    gpu_percent: Float | None  # None: nothing was measured
    memory_percent: Float | None  # of its GPUs
    cpu_percent: Float | None  # of a core, as the mean over its processes
    memory_mib: Float | None  # the same

    @property
    def id(self) -> int:
        """The number by which clients ask for it."""
        return self.number if self.index is None else element_number(self.number, self.index)

    @property
    def name(self) -> str:
        """The number as people write it: `190`, or `190.7` for an element."""
        return job_name(self.id)


class StoredOptions(JobOptions, frozen=True, forbid_unknown_fields=False):
    """The options that a job was submitted with."""


class JobSnapshot(Snapshot, frozen=True, forbid_unknown_fields=False):
    """A job's code as submitted, and how much of it was not committed."""

    dirty: bool | None = None  # None: the project has no commits
    diff_files: Int | None = None  # None: not counted yet, the job is still preparing
    diff_added: Int | None = None
    diff_removed: Int | None = None


class JobEvent(Answer, frozen=True):
    at: Float
    event: str
    from_state: str | None = field(name="from")
    to_state: str = field(name="to")
    actor: str
    reason: str
    process: str | None  # `0.1`; None: it is about the whole job


class JobProcess(Answer, frozen=True):
    attempt: Int
    group: Int
    index: Int
    rank: Int
    node: str
    host: str
    state: str
    exit_code: Int | None
    signal: Int | None
    killed_by: str | None
    oom: bool
    image: str | None  # that it ran in, by digest
    reason: str
    started_at: Float | None
    ended_at: Float | None
    resources: list[str]


class JobRecord(JobSummary, frozen=True):
    """One job with all that is known of it."""

    keep: bool
    exec: str  # who may enter its processes beside admins: owner, group
    options: StoredOptions
    attempt: Int
    groups: list[str]  # that it is shared with
    snapshot: JobSnapshot
    reruns: Int | None
    variables: list[str]  # names of the secret ones; `options.env` has the others
    result: str | None
    events: list[JobEvent]
    processes: list[JobProcess]
    ends_at: Float | None = None  # when it ends by its time limit, if it runs
    delay: str = ""  # another text whenever something else keeps it from going on; empty: nothing does
    failed: list[FailedElement] = field(default_factory=list)  # of an array, the first ones
    sweep: dict[str, str] = field(default_factory=dict)  # of an element: its values


class JobRow(JobSummary, frozen=True):
    """A row of `pit show jobs`; result and variables are there if asked for, cut to 200 characters."""

    run_s: Float | None  # from the start of the first process to the end of the last; None: not started
    result: str | None  # the first line
    env: dict[str, str]
    secrets: list[str]  # those of the asked variables that are secret


class JobList(Answer, frozen=True):
    jobs: list[JobRow]
    total: Int  # that match the filter, on all pages


class JobRemoved(Answer, frozen=True):
    number: Int
    trash: TrashEntry | None = None


class Totals(Answer, frozen=True):
    running: Int
    waiting: Int
    done: Int
    unapproved: Int = 0


class Status(Answer, frozen=True):
    """What `pit status` shows; the lists may be cut, the totals are not."""

    revision: Int
    running: list[JobSummary]
    waiting: list[JobSummary]
    done: list[JobSummary]
    totals: Totals
    unapproved: list[str] = field(default_factory=list)  # users who wait for approval; for admins alone
    notices: list[str] = field(default_factory=list)  # what needs an admin; for admins alone
    estimates: EstimateErrors = field(default_factory=EstimateErrors)  # of the starts of jobs


class LogLine(Answer, frozen=True, omit_defaults=True):
    at: Float
    source: str  # `head`, `prepare` or `worker <rank>`
    text: str  # its last version, where it was rewritten after a carriage return
    unfinished: bool = False  # it has no newline yet


class LogBatch(Answer, frozen=True):
    lines: list[LogLine]
    cursor: str  # opaque; the next batch begins there
    ended: bool  # no more lines will come after these
    unfinished: list[LogLine] = field(default_factory=list)  # those that have changed since the cursor
    more: bool = False  # the next batch is there already


class LogMatches(Answer, frozen=True):
    """Lines of a log that contain a text; of a long line the part around it."""

    lines: list[LogLine]
    cursor: str  # opaque; the search goes on there
    ended: bool  # all that is there has been searched


class ProcessUsage(Answer, frozen=True):
    process: str  # `0.1`
    # at, percent of GPU time, percent of GPU memory, percent of a core, MiB of memory
    samples: list[tuple[Float, Float | None, Float | None, Float | None, Float | None]]


class JobUsage(Answer, frozen=True):
    processes: list[ProcessUsage]


class VariablesDiff(Answer, frozen=True):
    """Names of secret variables by how two jobs differ in them."""

    removed: list[str]  # only the first job has them
    added: list[str]  # only the second job has them
    changed: list[str]
    unknown: list[str]  # not compared: the jobs are of different users


class FileChange(Answer, frozen=True):
    path: str
    added: Int | None  # None: a binary file
    removed: Int | None


class DiffStat(Answer, frozen=True):
    files: Int
    added: Int
    removed: Int
    changes: list[FileChange]  # may be cut
