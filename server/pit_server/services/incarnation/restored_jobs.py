"""Jobs of a restored database: none may run twice because the database forgot that it ran."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.states import JobEvent, JobState, Outcome, ProcessEvent, ProcessState
from pit_server.db.models import Job, Process
from pit_server.services.jobs import lifecycle, requeue
from pit_server.store.data_root import DataRoot
from pit_server.store.log_stream import has_run

REASON = "because the head was restored from a backup, and this job has run since then"


def settle(session: Session, data: DataRoot, *, now: float) -> list[int]:
    """End the jobs that waited at the time of the backup and have run since; returns their numbers.

    Jobs with processes go on with what their nodes report. A process that was only assigned counts as taken,
    so its node gets no spec of it: it goes on if the node has it, and has ended otherwise.
    """
    is_queued = Job.state.in_((JobState.PREPARING, JobState.WAITING))
    ended = []
    for row in session.execute(
        select(Job.id, requeue.IS_DUE).where(is_queued | requeue.IS_DUE).order_by(Job.id)
    ):
        number, is_due = row
        job = lifecycle.lock(session, number)
        if not has_run(data, number, job.attempt + is_due):
            continue
        job = lifecycle.advance(session, job, JobEvent.STOP, now=now, outcome=Outcome.LOST, reason=REASON)
        if job.state is not JobState.ENDED:
            lifecycle.advance(session, job, JobEvent.SETTLED, now=now, outcome=Outcome.LOST, reason=REASON)
        ended.append(number)
    assigned = lifecycle.PROCESSES.where(Process.state == ProcessState.ASSIGNED)
    for process in session.execute(assigned.order_by(Process.job_id, Process.rank)).all():
        lifecycle.lock(session, process.job_id)
        lifecycle.move_process(session, process, ProcessEvent.TAKEN, now=now, actor=lifecycle.HEAD)
    return ended
