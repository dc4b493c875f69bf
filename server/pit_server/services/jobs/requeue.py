"""Requeueing: a job that a node could not start goes back to the queue, whole and once.

The fault of one process ends the attempt: its other processes are stopped. When the last of them has ended,
the preparing thread builds the directory of the next attempt, and only then does the job wait again. So no
two attempts overlap, and none sees the other's files.
"""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from pit_protocol.messages.beat import Report
from pit_protocol.states import JobState, KilledBy
from pit_server.db.models import IS_LIVE, Attempt, Job, Node, Process
from pit_server.services.jobs.lifecycle import LockedJob

PLACED = (JobState.STARTING, JobState.RUNNING)
_FAULTS = (
    select(Process.id)
    .join(Attempt, Attempt.id == Process.attempt_id)
    .where(Process.job_id == Job.id, Attempt.number == Job.attempt, Process.node_fault)
)


# By itself and well: work that is done is not done twice.
_FINISHED = (
    select(Process.id)
    .join(Attempt, Attempt.id == Process.attempt_id)
    .where(Process.job_id == Job.id, Attempt.number == Job.attempt)
    .where(Process.exit_code == 0, Process.killed_by.is_(None))
)
_LIVE = select(Process.id).where(Process.job_id == Job.id, IS_LIVE)
# A node's fault has ended the attempt, and nothing of it runs any more.
IS_DUE = Job.state.in_(PLACED) & Job.outcome.is_(None) & exists(_FAULTS) & ~exists(_FINISHED) & ~exists(_LIVE)


def is_pending(session: Session, job: LockedJob, report: Report) -> bool:
    """Whether a node's fault has ended the attempt, of which this process has just ended."""
    if job.state not in PLACED or report.killed_by is KilledBy.NODE:
        return False  # nobody saw it end, so it may still run
    query = select(Job.id).where(Job.id == job.number, exists(_FAULTS), ~exists(_FINISHED))
    return session.execute(query).first() is not None


def describe_fault(session: Session, number: int, attempt: int) -> str:
    """What the first fault of an attempt was, and where."""
    row = session.execute(
        select(Node.name, Process.reason)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .join(Node, Node.id == Process.node_id)
        .where(Process.job_id == number, Attempt.number == attempt, Process.node_fault)
        .order_by(Process.ended_at, Process.rank)
    ).first()
    return f"{row.name} could not start it: {row.reason.removeprefix('ended: ')}" if row else ""


def faulty_nodes(session: Session, numbers: Collection[int]) -> dict[int, frozenset[int]]:
    """Per job the nodes that could not start it."""
    found: dict[int, set[int]] = defaultdict(set)
    if numbers:
        query = select(Process.job_id, Process.node_id).where(Process.job_id.in_(numbers), Process.node_fault)
        for job_id, node_id in session.execute(query):
            found[job_id].add(node_id)
    return {number: frozenset(nodes) for number, nodes in found.items()}


def describe_poison(attempts: int, fault: str) -> str:
    """Why a job is not tried again."""
    return f"{fault}; that was try {attempts}, and `max_requeues` of the head allows no more"
