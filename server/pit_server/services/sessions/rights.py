"""Who may have a session in which process: asked when it begins, and again whenever rights change."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, is_element, job_name
from pit_protocol.problem import Problem
from pit_protocol.states import JobState, ProcessState
from pit_server.db.models import Attempt, Job, Node, Process
from pit_server.services.jobs import jobs
from pit_server.services.users import access, permissions
from pit_server.services.users.permissions import Action
from pit_server.services.users.tokens import Caller


@dataclass(frozen=True)
class Target:
    """A running process, on its node."""

    process: int
    attempt: int
    name: str  # `0.1`, as in the log
    node_id: int
    node: str


def require(session: Session, caller: Caller, number: int) -> Job:
    """The job, if the caller may enter its processes; else a Problem."""
    job = jobs.find(session, caller, number)
    whole = session.get(Job, array_of(number)) or job
    action = Action.ENTER_SHARED_JOB if whole.is_open_to_groups else Action.ENTER_JOB
    relations = access.relations_to_job(session, caller, job)
    permissions.require(action, relations, f"job {job_name(number)}")
    return job


def find_target(session: Session, caller: Caller, number: int, name: str | None) -> Target:
    """The process of that name, or the first one, if it runs and the caller may enter it."""
    job = require(session, caller, number)
    shown = job_name(number)
    if job.array_size is not None and not is_element(number):
        raise Problem(
            "is_array", f"job {shown} is an array: its elements run", f"name one: {shown}.0", status=409
        )
    if job.state == JobState.ENDED:
        hint = f"`pit log {shown}` shows what it wrote, `pit top {shown}` what it used"
        raise Problem("not_running", f"job {shown} has ended", hint, status=409)
    rows = session.execute(
        select(Process, Attempt.number.label("attempt"), Node.name.label("node"))
        .join(Attempt, Attempt.id == Process.attempt_id)
        .join(Node, Node.id == Process.node_id)
        .where(Process.job_id == job.id, Attempt.number == job.attempt)
        .order_by(Process.rank)
    ).all()
    found = [row for row in rows if name is None or name in _names(row.Process)]
    if name is not None and rows and not found:
        last = _names(rows[-1].Process)[0]
        raise Problem(
            "no_such_process", f"job {shown} has no process {name}", f"its last one is {last}", status=404
        )
    running = [row for row in found if row.Process.state == ProcessState.RUNNING]
    if not running:
        what = f"process {name} of job {shown}" if found and name else f"job {shown}"
        state = found[0].Process.state if found and name else job.state
        raise Problem("not_running", f"{what} is {state}, and does not run", f"`pit why {shown}`", status=409)
    first = running[0].Process
    return Target(first.id, running[0].attempt, _names(first)[0], first.node_id, running[0].node)


def _names(process: Process) -> tuple[str, str]:
    return f"{process.group_index}.{process.process_index}", str(process.rank)
