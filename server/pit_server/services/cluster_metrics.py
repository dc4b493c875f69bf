"""What the database says of the cluster, for Prometheus: a few counts by index, however many jobs ended."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.states import JobState, NodeState
from pit_server.db.models import IS_LIVE, Allocation, Job, Node, Notification, Process, Resource, Sample
from pit_server.services.jobs.records.usage import RECENT_S

LIVE = tuple(state for state in JobState if state is not JobState.ENDED)


class Family(NamedTuple):
    """Gauges of one name."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


def collect(session: Session, *, now: float) -> Iterator[Family]:
    yield _jobs(session)
    oldest = select(func.min(Job.since)).where(Job.state == JobState.WAITING)
    since = session.execute(oldest).scalar()
    age_s = max(0.0, now - since) if since is not None else 0.0
    yield Family("pit_queue_oldest_seconds", "How long the oldest waiting job waits.", (), [((), age_s)])
    counted = select(Process.state, func.count()).where(IS_LIVE).group_by(Process.state)
    processes = [((row[0],), float(row[1])) for row in session.execute(counted)]
    yield Family("pit_processes", "Processes that have not ended, by state.", ("state",), processes)
    yield _nodes(session)
    yield from _gpus(session, now=now)
    waiting = select(func.count()).select_from(Notification).where(Notification.ended_at.is_(None))
    count = float(session.execute(waiting).scalar_one())
    yield Family("pit_notifications_waiting", "Messages that are to be sent.", (), [((), count)])


def _jobs(session: Session) -> Family:
    query = select(Job.state, func.count()).where(Job.state.in_(LIVE), Job.id > 0).group_by(Job.state)
    found = {row[0]: row[1] for row in session.execute(query)}
    values = [((state.value,), float(found.get(state, 0))) for state in LIVE]
    return Family("pit_jobs", "Jobs that have not ended, by state; an array is one.", ("state",), values)


def _nodes(session: Session) -> Family:
    query = select(Node.state, func.count()).where(Node.removed_at.is_(None)).group_by(Node.state)
    found = {row[0]: row[1] for row in session.execute(query)}
    values = [((state.value,), float(found.get(state, 0))) for state in NodeState]
    return Family("pit_nodes", "Nodes, by state.", ("state",), values)


def _gpus(session: Session, *, now: float) -> Iterator[Family]:
    there = (Resource.is_present, Node.removed_at.is_(None))
    joined = select(Resource.kind, func.count()).join(Node, Node.id == Resource.node_id).where(*there)
    total = session.execute(joined.group_by(Resource.kind)).all()
    bad = session.execute(joined.where(Resource.trouble != "").group_by(Resource.kind)).all()
    taken = session.execute(
        joined.join(Allocation, (Allocation.node_id == Resource.node_id) & (Allocation.unit == Resource.unit))
        .where(Allocation.released_at.is_(None))
        .group_by(Resource.kind)
    ).all()
    for name, text, rows in (
        ("pit_gpus", "GPUs, by kind.", total),
        ("pit_gpus_allocated", "GPUs that processes hold, by kind.", taken),
        ("pit_gpus_in_trouble", "GPUs that are not given to processes, by kind.", bad),
    ):
        yield Family(name, text, ("kind",), [((row[0],), float(row[1])) for row in rows])
    recent = (
        select(func.avg(Sample.gpu_percent))
        .join(Process, Process.id == Sample.process_id)
        .where(IS_LIVE, Sample.at >= now - RECENT_S)
    )
    use = session.execute(recent).scalar()
    values = [] if use is None else [((), float(use))]
    yield Family("pit_gpu_use_percent", "Mean use of the GPUs that processes hold.", (), values)
