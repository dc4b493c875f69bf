"""The story of a job that no longer waits: how long it waited, where it ran, what failed first."""

import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.answers.why import Failure, Story
from pit_protocol.states import JobEvent, JobState
from pit_server.db.models import Event, Job
from pit_server.services.jobs import time_limits
from pit_server.services.logs import log_merge
from pit_server.services.logs.event_text import PlacedProcess
from pit_server.services.scheduling.why import wait_reasons
from pit_server.services.users.tokens import Caller
from pit_server.store.data_root import DataRoot

LAST_LINES = 5  # of the process that failed first


def tell(session: Session, caller: Caller, job: Job, data: DataRoot) -> Story:
    processes = list(log_merge.list_processes(session, job, only_current=True).values())
    started = [each.process.started_at for each in processes if each.process.started_at is not None]
    ended = [each.process.ended_at for each in processes if each.process.ended_at is not None]
    is_over = len(ended) == len(processes)
    return Story(
        waited_s=_waited_s(session, job),
        waited_for=wait_reasons.describe(session, caller, job),
        started_at=min(started, default=None),
        ran_s=max(0.0, (max(ended) if is_over else time.time()) - min(started)) if started else None,
        processes=len(processes),
        nodes=sorted({each.node for each in processes}),
        ends_at=time_limits.ends_at(job),
        failure=_failure(session, job, data, processes) if job.state == JobState.ENDED else None,
    )


def _waited_s(session: Session, job: Job) -> float | None:
    """For how long it was in the queue before its latest attempt."""
    rows = session.execute(
        select(Event.event, Event.at)
        .where(Event.job_id == job.id, Event.event.in_((JobEvent.PREPARED, JobEvent.PLACED)))
        .order_by(Event.id.desc())
        .limit(2)
    ).all()
    if [row.event for row in rows] != [JobEvent.PLACED, JobEvent.PREPARED]:
        return None
    placed_at, prepared_at = float(rows[0].at), float(rows[1].at)
    return max(0.0, placed_at - prepared_at)


def _failure(session: Session, job: Job, data: DataRoot, processes: list[PlacedProcess]) -> Failure | None:
    """The process that ended badly by itself, and before all others."""
    bad = [
        each
        for each in processes
        if each.process.killed_by is None and (each.process.signal or each.process.exit_code)
    ]
    if not bad:
        return None
    process, node, _ = min(bad, key=lambda each: (each.process.ended_at or 0.0, each.process.rank))
    query = log_merge.Query(process=str(process.rank), tail=LAST_LINES)
    batch = log_merge.read(session, job, data, query)
    lines = [line.text for line in (*batch.lines, *batch.unfinished)][-LAST_LINES:]
    return Failure(process.rank, node, process.reason, lines)
