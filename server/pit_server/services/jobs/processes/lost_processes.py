"""Lost processes: those of a node that does not come back. If they still run, they are ordered to stop.

A lost process keeps its allocations until its node reports that it no longer runs. So no GPU is
given to two processes, even if the node was only cut off.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.states import ProcessState
from pit_server.db.models import IS_LIVE, Allocation, Attempt, Fact, Node, Process
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.processes import reports

TERM = "lease_term"
MARGIN_S = 5.0  # leases have a resolution of one second, and killing takes time


@dataclass(frozen=True)
class LeaseTerm:
    """How long a node must be silent before its processes must have ended by their leases."""

    lost_after_s: float
    grace_s: float
    after: int = 0  # attempts up to this id have other leases, or none

    @property
    def silence_s(self) -> float:
        return self.lost_after_s + self.grace_s + MARGIN_S


def begin_term(session: Session, lost_after_s: float, grace_s: float) -> LeaseTerm | None:
    """Store the term of new leases if it has changed, and return it; None if leases are off."""
    fact = session.get(Fact, TERM) or Fact(name=TERM, value="0 0 0")
    known_s, known_grace_s, after = fact.value.split()
    if (float(known_s), float(known_grace_s)) != (lost_after_s, grace_s):
        after = str(session.execute(select(func.max(Attempt.id))).scalar_one() or 0)
        fact.value = f"{lost_after_s!r} {grace_s!r} {after}"
        session.add(fact)
        session.flush()
    return LeaseTerm(lost_after_s, grace_s, int(after)) if lost_after_s else None


def expire_leases(session: Session, node_id: int, term: LeaseTerm, *, now: float) -> list[int]:
    """Mark the processes of a silent node lost whose leases have run out; returns the job numbers."""
    name = session.execute(select(Node.name).where(Node.id == node_id)).scalar_one()
    reason = f"its node {name} had no contact with the head for more than {term.lost_after_s:g} s"
    return mark_lost(session, node_id, reason, now=now, after=term.after)


def mark_lost(
    session: Session, node_id: int, reason: str, *, now: float, actor: str = lifecycle.HEAD, after: int = 0
) -> list[int]:
    """Mark live processes of a node lost whose attempt id is above `after`; returns the job numbers."""
    query = lifecycle.PROCESSES.where(Process.node_id == node_id, IS_LIVE, Process.attempt_id > after)
    # Jobs are always locked in this order, which prevents deadlocks.
    processes = session.execute(query.order_by(Process.job_id, Process.rank, Process.id)).all()
    for process in processes:
        reports.end_lost(session, process, reason, now=now, actor=actor)
    return sorted({process.job_id for process in processes})


def list_occupied(session: Session) -> list[int]:
    """Nodes with live processes."""
    query = select(Process.node_id).where(IS_LIVE).distinct()
    return list(session.execute(query).scalars())


def list_gone(session: Session, node_id: int, running: Collection[int]) -> list[int]:
    """Lost processes that still hold allocations on this node but are not among those `running` there."""
    query = (
        select(Process.id)
        .join(Allocation, Allocation.process_id == Process.id)
        .where(Allocation.node_id == node_id, Allocation.released_at.is_(None))
        .where(Process.state == ProcessState.ENDED)
        .distinct()
    )
    return sorted(set(session.execute(query).scalars()) - set(running))
