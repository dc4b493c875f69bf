"""Jobs of a restored database: none may run twice because the database forgot that it ran."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import element_number
from pit_protocol.states import JobEvent, JobState, Outcome, ProcessEvent, ProcessState
from pit_server.db.models import Job, Process
from pit_server.services.jobs import lifecycle, requeue
from pit_server.services.jobs.arrays.elements import OPEN, NewElements
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
    ended += _end_elements(session, data, now=now)
    assigned = lifecycle.PROCESSES.where(Process.state == ProcessState.ASSIGNED)
    for process in session.execute(assigned.order_by(Process.job_id, Process.rank)).all():
        lifecycle.lock(session, process.job_id)
        lifecycle.move_process(session, process, ProcessEvent.TAKEN, now=now, actor=lifecycle.HEAD)
    return ended


def _end_elements(session: Session, data: DataRoot, *, now: float) -> list[int]:
    """Elements of arrays that had not begun at the time of the backup, and have run since."""
    ended = []
    going_on = select(Job.id).where(Job.array_next.is_not(None), Job.state.in_(OPEN)).order_by(Job.id)
    for array in list(session.execute(going_on).scalars()):
        names = [path.name for path in data.logs(array).glob("elements/*") if path.name.isdecimal()]
        known = sorted(element_number(array, int(name)) for name in names)
        new = NewElements(session, known)
        for number in known:
            if new.is_new(number) and has_run(data, number, 1):
                new.end(number, Outcome.LOST, now=now, reason=REASON, actor=lifecycle.HEAD)
                ended.append(number)
        new.finish()
        lifecycle.settle_array(session, lifecycle.lock(session, array), now=now)
    return ended
