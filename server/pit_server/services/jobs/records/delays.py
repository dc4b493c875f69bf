"""What keeps a job from going on: what it waits for, or which of its nodes are silent."""

import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.states import JobState, NodeState
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Attempt, Job, Node, Process, User
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs.processes.lost_processes import SILENCE_S
from pit_server.services.scheduling.estimates.start_range import StartRange
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller

HIDDEN = "somebody else's job"


@dataclass(frozen=True)
class DelayFacts:
    """What the head knows of delays and does not store."""

    reasons: Mapping[int, Reason]  # why each waiting job waits, from the latest pass of the scheduler
    lost_in_s: Callable[[int, float | None], float | None]  # of a silent node and a lease; None: never
    find_reason: Callable[[int], Reason | None]  # again, of a waiting job
    starts: Mapping[int, StartRange] = field(default_factory=dict)  # when waiting jobs will start


class Delay(NamedTuple):
    text: str
    key: str  # stays the same while only the times in the text change
    starts: StartRange | None = None  # the estimate, if the job waits

    @property
    def mark(self) -> str:
        """Short for the key, to be sent back by those who know of the delay."""
        return f"{zlib.crc32(self.key.encode()):x}"


def find_all(
    session: Session, caller: Caller, rows: Iterable[AnyRow | Job], facts: DelayFacts
) -> dict[int, Delay]:
    """What delays these jobs, by number, in the words that the caller may read."""
    waiting, placed = [], []
    for row in rows:
        # Elements of an array may wait while others run.
        is_partly = row.array_size is not None and row.id in facts.reasons
        if row.state in (JobState.PREPARING, JobState.WAITING) or is_partly:
            waiting.append(row.id)
        elif row.state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING):
            placed.append(row.id)
    reasons = _reasons(session, waiting, facts)
    name = job_names(session, caller, {job for reason in reasons.values() for job in reason.jobs})
    texts = {number: reason.render(name) for number, reason in reasons.items()}
    return {
        **{number: Delay(text, text, facts.starts.get(number)) for number, text in texts.items()},
        **_find_silent(session, placed, facts),
    }


def _reasons(session: Session, waiting: Collection[int], facts: DelayFacts) -> dict[int, Reason]:
    """Why these jobs wait; a reason that is no longer true is found again."""
    reasons = {number: facts.reasons[number] for number in waiting if number in facts.reasons}
    named = {job for reason in reasons.values() for job in reason.jobs}
    if not named:
        return reasons
    query = select(Job.id, Job.state).where(Job.id.in_(named), Job.state != JobState.WAITING)
    states = {row.id: row.state for row in session.execute(query)}
    for number, reason in reasons.items():
        gone = [job for job in reason.jobs if states.get(job) == JobState.ENDED]
        passed = reason.is_about_order and any(job in states for job in reason.jobs)
        if gone or passed:
            reasons[number] = facts.find_reason(number) or reason
    return reasons


def job_names(session: Session, caller: Caller, numbers: Collection[int]) -> Callable[[int], str]:
    """How the caller knows these jobs: by number, or only by their users, whose names are public."""
    if not numbers:
        return lambda _: HIDDEN
    rows = session.execute(
        select(Job.id, Job.user_id, User.name, visible(caller).label("is_visible"))
        .join(User, User.id == Job.user_id)
        .where(Job.id.in_(numbers), Job.removed_at.is_(None))
    ).all()
    names = {row.id: _name(row, caller) for row in rows}
    return lambda number: names.get(number, HIDDEN)


def _name(row: AnyRow, caller: Caller) -> str:
    if row.user_id == caller.user_id:
        return f"job {row.id}"
    return f"job {row.id} ({row.name})" if row.is_visible else f"a job of {row.name}"


def _find_silent(session: Session, numbers: Collection[int], facts: DelayFacts) -> dict[int, Delay]:
    """The placed jobs with processes on nodes from which nothing is heard."""
    if not numbers:
        return {}
    rows = session.execute(
        select(Process.job_id, Node.id, Node.name, Node.since, SILENCE_S.label("silence_s"))
        .join(Attempt, Attempt.id == Process.attempt_id)
        .join(Node, Node.id == Process.node_id)
        .where(Process.job_id.in_(numbers), IS_LIVE, Node.state == NodeState.OFFLINE)
        .order_by(Process.job_id, Node.name)
        .distinct()
    ).all()
    now, silent = time.time(), dict[int, list[AnyRow]]()
    for row in rows:
        silent.setdefault(row.job_id, []).append(row)
    return {number: _describe_silence(nodes, facts, now) for number, nodes in silent.items()}


def _describe_silence(nodes: list[AnyRow], facts: DelayFacts, now: float) -> Delay:
    """In words what is known of the first silent node, and what happens next."""
    first = nodes[0]
    more = f", as has {nodes[1].name}" if len(nodes) == 2 else f", as have {len(nodes) - 1} other nodes"
    silence = f"{first.name} has been silent for {_seconds(now - first.since)}{more if nodes[1:] else ''}"
    lost_in_s = facts.lost_in_s(first.id, first.silence_s)
    if lost_in_s is None:
        hint = f"`pit remove node:{first.name} --lost`"
        after = f"the job goes on when it answers, unless an admin gives it up ({hint})"
    else:
        after = f"its processes are lost in {_seconds(lost_in_s)} unless it answers"
    return Delay(f"{silence}; {after}", " ".join(f"{row.name} {row.since:.0f}" for row in nodes))


def _seconds(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
