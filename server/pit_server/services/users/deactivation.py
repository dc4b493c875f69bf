"""What becomes of the jobs of a user whose account is not active: waiting ones are held, others may go on."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.models import Job, User
from pit_server.services.jobs import jobs
from pit_server.services.users.tokens import Caller

FINISH, STOP = "finish", "stop"  # what running jobs do
RUNNING = (JobState.STARTING, JobState.RUNNING)
_WORDS = {
    JobState.PREPARING: "held",
    JobState.WAITING: "held",
    JobState.STARTING: "running",
    JobState.RUNNING: "running",
    JobState.STOPPING: "stopping",
}


def read_choice(name: str, text: str) -> str:
    if text not in (FINISH, STOP):
        raise Problem(f"bad_{name}", f"{name} must be {FINISH} or {STOP}, not {text[:40]!r}", status=422)
    return text


def apply(session: Session, caller: Caller, user: User, choice: str, *, now: float) -> None:
    """Let the running jobs of a user who is not active finish, or stop them."""
    if user.is_active:
        raise Problem(
            "is_active",
            f"user {user.name} is active, so nothing becomes of their jobs",
            f"`pit set user:{user.name} active=no jobs={choice}`",
            status=422,
        )
    if choice == STOP:
        is_mine = (Job.user_id == user.id) & Job.array_job.is_(None)
        running = select(Job.id).where(is_mine, Job.state.in_(RUNNING)).order_by(Job.id)
        for number in list(session.execute(running).scalars()):
            jobs.stop(session, caller, number, now=now)


def hold_reason(user: str) -> str:
    return f"held, because user {user} is not active; goes on after `pit set user:{user} active=yes`"


def list_jobs(session: Session, user: User) -> dict[str, list[int]]:
    """The user's jobs that have not ended, as `held`, `running` and `stopping`."""
    is_mine = (Job.user_id == user.id) & Job.array_job.is_(None)
    query = select(Job.id, Job.state).where(is_mine, Job.state.in_(_WORDS)).order_by(Job.id)
    found: dict[str, list[int]] = {}
    for number, state in session.execute(query):
        found.setdefault(_WORDS[JobState(state)], []).append(number)
    return found
