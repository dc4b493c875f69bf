"""Tables of jobs, their attempts, processes and allocations.

Usage is always a sum over allocation rows, never a counter.
"""

import secrets
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint, literal_column, text
from sqlalchemy.orm import Mapped, mapped_column

from pit_server.db.models.base import Base

LARGEST_ID = 2**53 - 1  # that JSON carries exactly


def random_id() -> int:
    return secrets.randbelow(LARGEST_ID) + 1


class Job(Base):
    __tablename__ = "job"
    __table_args__ = (
        UniqueConstraint("user_id", "submission_key"),
        Index("job_by_state", "state", "id"),
        Index("job_by_since", "state", "since"),
        Index("job_by_user", "user_id", "state"),
        Index("job_element", "array_job", "array_index", unique=True),
        Index("job_by_array", "array_job", "state", "outcome"),
        # A job number is never reused, even after the newest was removed.
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)  # its number; negative for an element of an array
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"))
    submission_key: Mapped[str]
    body_sha256: Mapped[str]
    title: Mapped[str]
    request: Mapped[str]  # canonical
    options: Mapped[dict[str, Any]]  # a JobOptions
    needs_container: Mapped[bool]  # for the scheduler: its options name an image
    remote: Mapped[str | None]
    remote_name: Mapped[str | None]
    branch: Mapped[str | None]
    commit_hash: Mapped[str | None]
    tree_hash: Mapped[str]
    committed_hash: Mapped[str | None]  # the tree without uncommitted changes
    base_hash: Mapped[str | None]  # commit that the head had or fetched
    store_id: Mapped[int | None]  # user whose store has the snapshot; None: from an older version, and lost
    reruns: Mapped[int | None]  # number of the job whose snapshot this is
    diff_lines: Mapped[int]
    diff_files: Mapped[int | None]  # uncommitted changes, as counted by the head
    diff_added: Mapped[int | None]
    diff_removed: Mapped[int | None]
    pack_sha256: Mapped[str | None]
    keeps_pointers: Mapped[bool] = mapped_column(default=False)  # Git LFS pointers get no content
    state: Mapped[str]
    outcome: Mapped[str | None]  # known as soon as it stops
    reason: Mapped[str] = mapped_column(default="")
    attempt: Mapped[int] = mapped_column(default=1)  # the current one; reports of older ones are ignored
    created_at: Mapped[float]
    since: Mapped[float]  # when it entered its state
    removed_at: Mapped[float | None]
    # The first estimate of its start, to be compared with the start itself; None: it got none.
    estimated_at: Mapped[float | None]
    starts_from: Mapped[float | None]
    starts_by: Mapped[float | None]
    is_kept: Mapped[bool] = mapped_column(default=False)  # its directory does not expire
    variables: Mapped[dict[str, Any]] = mapped_column(default=dict)  # secret ones: name -> sealed value
    # An array has no processes: each of its elements is a job of its own, with a row from its start on.
    array_size: Mapped[int | None]  # of an array: how many elements it has
    array_next: Mapped[int | None]  # of an array: the lowest index without a row; None: all have one
    array_job: Mapped[int | None]  # of an element: the number of its array
    array_index: Mapped[int | None]
    results: Mapped[dict[str, Any] | None] = mapped_column(JSON)  # what its processes left in $RESULT_FILE
    is_open_to_groups: Mapped[bool] = mapped_column(default=False)  # their members may enter its processes
    notify: Mapped[str] = mapped_column(default="")  # events that its user is told of; of an element: none


class JobGroup(Base):
    """A group that a job is shared with."""

    __tablename__ = "job_group"
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True, index=True)


class Dependency(Base):
    """A job that another one waits for. The row is deleted when that is over."""

    __tablename__ = "dependency"
    __table_args__ = (
        Index(
            "dependency_due",
            "job_id",
            sqlite_where=text("outcome IS NOT NULL"),
            postgresql_where=text("outcome IS NOT NULL"),
        ),
    )
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True)
    needs_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True, index=True)
    when: Mapped[str]  # how the other job has to end: ok, any, fail
    outcome: Mapped[str | None]  # of the other job; None: it has not ended


class Attempt(Base):
    """One attempt at running a job; its number is the epoch that orders and reports carry."""

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("job_id", "number"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"))
    number: Mapped[int]
    master_port: Mapped[int]
    created_at: Mapped[float]
    network: Mapped[str] = mapped_column(default="")  # that connects its containers
    lost_after_s: Mapped[float | None]  # without contact for longer, its processes are lost; None: never
    grace_s: Mapped[float] = mapped_column(default=0.0)  # between SIGTERM and SIGKILL
    stalled_at: Mapped[float | None]  # since when it does nothing
    requeue_cause: Mapped[str] = mapped_column(default="")  # why another attempt follows; empty: none does
    requeue_reason: Mapped[str] = mapped_column(default="")  # the same in words
    failed_node_id: Mapped[int | None]  # where that happened
    # What the job waited for before it: text, jobs and more of a Reason; empty: it did not wait.
    waited_for: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Process(Base):
    __tablename__ = "process"
    __table_args__ = (
        UniqueConstraint("attempt_id", "group_index", "process_index"),
        Index(
            "process_live",
            "node_id",
            sqlite_where=text("state <> 'ended'"),
            postgresql_where=text("state <> 'ended'"),
        ),
        {"sqlite_autoincrement": True},
    )
    # Names a spool directory on its node. Random, so that it is never used for another process, even if the
    # database was restored from a backup and nodes have processes that it does not know.
    id: Mapped[int] = mapped_column(primary_key=True, default=random_id)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), index=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempt.id"))
    group_index: Mapped[int]
    process_index: Mapped[int]
    rank: Mapped[int]
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"))
    host: Mapped[str]
    state: Mapped[str]
    stop_by: Mapped[str | None]  # who requested the stop
    # How it ended, as facts: an exit code of 137 or 255 alone says nothing.
    exit_code: Mapped[int | None]
    signal: Mapped[int | None]
    oom: Mapped[bool] = mapped_column(default=False)
    killed_by: Mapped[str | None]
    reason: Mapped[str] = mapped_column(default="")
    started_at: Mapped[float | None]
    ended_at: Mapped[float | None]
    image: Mapped[str] = mapped_column(default="")  # that it ran in, by digest
    # Only for jobs with --stall: when it wrote or used something last, and the size of its output then.
    active_at: Mapped[float | None]
    log_size: Mapped[int] = mapped_column(default=0)
    node_fault: Mapped[bool] = mapped_column(default=False)  # its node could not start it


# A literal, not a bound parameter, because only then does SQLite use the partial index.
IS_LIVE = Process.state != literal_column("'ended'")


class Sample(Base):
    """What a process used up to a time, since the sample before; None: it was not measured."""

    __tablename__ = "sample"
    process_id: Mapped[int] = mapped_column(ForeignKey("process.id"), primary_key=True)
    at: Mapped[float] = mapped_column(primary_key=True)
    weight: Mapped[int] = mapped_column(default=1)  # for how many reports it stands
    gpu_percent: Mapped[float | None]
    memory_percent: Mapped[float | None]  # of its GPUs
    cpu_percent: Mapped[float | None]  # of a core
    memory_mib: Mapped[float | None]


class Allocation(Base):
    """A resource bound to a process until released.

    `unit` names a single thing (a GPU, a port) that only one process can hold. The partial unique
    index guarantees that, whatever alias it was requested by. For amounts (cpu, mem) it is NULL.
    """

    __tablename__ = "allocation"
    __table_args__ = (
        Index(
            "allocation_once",
            "node_id",
            "unit",
            unique=True,
            sqlite_where=text("released_at IS NULL"),
            postgresql_where=text("released_at IS NULL"),
        ),
        Index("allocation_released", "released_at"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    process_id: Mapped[int] = mapped_column(ForeignKey("process.id"), index=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"))
    kind: Mapped[str]
    unit: Mapped[str | None]
    amount: Mapped[int]  # 1 for a unit, thousandths of a core for cpu, MiB for mem
    released_at: Mapped[float | None]


class Event(Base):
    """One change of a job or of one of its processes; written in its transaction, never altered."""

    __tablename__ = "event"
    __table_args__ = (Index("event_by_job", "job_id", "id"), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"))
    process_id: Mapped[int | None] = mapped_column(ForeignKey("process.id"))
    attempt: Mapped[int]
    event: Mapped[str]
    from_state: Mapped[str | None]
    to_state: Mapped[str]
    actor: Mapped[str]  # a user's name, `head`, or `node:<name>`
    reason: Mapped[str] = mapped_column(default="")
    at: Mapped[float]
