"""Requeueing: an attempt ends, and the job goes back to the queue for another one, whole and once.

There are three causes. A node could not start a process: that is nobody's decision, and `max_requeues` limits
it. A node was lost, or a process ended with an exit code of `--retry-on`: that needs `--retry`. The first
process that ends so decides for the attempt, and its other processes are stopped. When the last of them has
ended, the preparing thread builds the directory of the next attempt, and only then does the job wait again.
So no two attempts overlap, and none sees the other's files.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session

from pit_protocol.job_options import JobOptions
from pit_protocol.messages.beat import Report
from pit_protocol.states import JobState, KilledBy
from pit_protocol.wire import from_json
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Attempt, Job, Node, Process
from pit_server.services.jobs.lifecycle import LockedJob

PLACED = (JobState.STARTING, JobState.RUNNING)
NODE_LOST = (KilledBy.REBOOT, KilledBy.LEASE, KilledBy.NODE)
LONGEST_DELAY_S = 3600.0
_SIGNAL = 128  # a shell adds it to the number of a signal to make an exit code


class Cause(StrEnum):
    """Why another attempt follows."""

    FAULT = "fault"  # the node could not start it
    LOST = "lost"  # the node was lost with the process, or its engine restarted
    EXIT = "exit"  # it ended with an exit code of --retry-on


RETRIES = (Cause.LOST, Cause.EXIT)  # what `--retry` counts
_ENDING = select(Attempt.id).where(
    Attempt.job_id == Job.id, Attempt.number == Job.attempt, Attempt.requeue_cause != ""
)
_LIVE = select(Process.id).where(Process.job_id == Job.id, IS_LIVE)
# The attempt has ended for another one, and nothing of it runs any more.
IS_DUE = Job.state.in_(PLACED) & Job.outcome.is_(None) & exists(_ENDING) & ~exists(_LIVE)


def has_retry(options: Mapping[str, Any]) -> bool:
    """Whether a job is tried again after its node was lost, so that its processes need a lease."""
    return bool(options.get("retry"))


def is_possible(report: Report, options: Mapping[str, Any]) -> bool:
    """Whether another attempt may follow the one of a process that has ended by itself."""
    return report.node_fault or (report.exit_code != 0 and has_retry(options))


def is_pending(session: Session, job: LockedJob, process: AnyRow, report: Report, reason: str) -> bool:
    """Whether the attempt, of which this process has just ended, ends for another one; notes why it does."""
    if job.state not in PLACED:
        return False
    options = from_json(JobOptions, job.options)
    known = select(Attempt.requeue_cause).where(Attempt.id == process.attempt_id)
    if session.execute(known).scalar_one():
        # Nobody saw this one end. Without a lease it may still run.
        return report.killed_by is not KilledBy.NODE or bool(options.retry)
    cause = _find_cause(report, options)
    if cause is None or not _is_allowed(session, job, cause, options):
        return False
    name = session.execute(select(Node.name).where(Node.id == process.node_id)).scalar_one()
    text = {
        Cause.FAULT: f"{name} could not start it: {reason.removeprefix('ended: ')}",
        Cause.LOST: f"worker {process.rank} on {name} {reason}",
        Cause.EXIT: f"worker {process.rank} {reason} on {name}",
    }
    session.execute(
        update(Attempt)
        .where(Attempt.id == process.attempt_id)
        .values(requeue_cause=cause, requeue_reason=text[cause], failed_node_id=process.node_id)
    )
    return True


def _find_cause(report: Report, options: JobOptions) -> Cause | None:
    if report.node_fault:
        return Cause.FAULT
    if report.killed_by in (*NODE_LOST, KilledBy.RUNTIME):
        return Cause.LOST
    code = _SIGNAL + report.signal if report.signal is not None else report.exit_code
    return Cause.EXIT if report.killed_by is None and code in options.retry_on else None


def _is_allowed(session: Session, job: LockedJob, cause: Cause, options: JobOptions) -> bool:
    if count(session, job.number, RETRIES) < options.retry:
        return True
    # By itself and well: without --retry, work that is done is not done twice.
    finished = (
        select(Process.id)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .where(Process.job_id == job.number, Attempt.number == job.attempt)
        .where(Process.exit_code == 0, Process.killed_by.is_(None))
    )
    return cause is Cause.FAULT and session.execute(finished).first() is None


def count(session: Session, number: int, causes: Collection[Cause]) -> int:
    """How often the job has been requeued for these causes, or is about to be."""
    query = select(func.count()).select_from(Attempt)
    found = query.where(Attempt.job_id == number, Attempt.requeue_cause.in_(causes))
    return session.execute(found).scalar_one()


def describe(session: Session, number: int, attempt: int) -> str:
    """Why another attempt follows this one."""
    query = select(Attempt.requeue_reason).where(Attempt.job_id == number, Attempt.number == attempt)
    return session.execute(query).scalar_one()


def failed_nodes(session: Session, numbers: Collection[int]) -> dict[int, frozenset[int]]:
    """Per job the nodes that could not start it, and the one on which the latest attempt failed."""
    found: dict[int, set[int]] = defaultdict(set)
    if numbers:
        query = select(Process.job_id, Process.node_id).where(Process.job_id.in_(numbers), Process.node_fault)
        latest = (
            select(Attempt.job_id, Attempt.failed_node_id)
            .join(Job, (Job.id == Attempt.job_id) & (Attempt.number == Job.attempt - 1))
            .where(Job.id.in_(numbers), Attempt.failed_node_id.is_not(None))
        )
        for job_id, node_id in [*session.execute(query), *session.execute(latest)]:
            found[job_id].add(node_id)
    return {number: frozenset(nodes) for number, nodes in found.items()}


def delays(session: Session, numbers: Collection[int], first_s: float) -> dict[int, float]:
    """For how long these waiting jobs, which were requeued, wait before they are tried again."""
    query = (
        select(Attempt.job_id, func.count())
        .where(Attempt.job_id.in_(numbers), Attempt.requeue_cause.in_(RETRIES))
        .group_by(Attempt.job_id)
    )
    found = session.execute(query).all() if numbers and first_s else []
    return {number: min(first_s * 2.0 ** (tries - 1), LONGEST_DELAY_S) for number, tries in found}


def describe_limit(session: Session, job: LockedJob) -> str:
    """What follows the reason of a job that has used up its retries."""
    retries = from_json(JobOptions, job.options).retry
    if not retries or count(session, job.number, RETRIES) < retries:
        return ""
    return f"; that was try {job.attempt}, and --retry {retries} allows no more"


def describe_poison(faults: int, fault: str) -> str:
    """Why a job that nodes could not start is not tried again."""
    return f"{fault}; that was try {faults}, and `max_requeues` of the head allows no more"
