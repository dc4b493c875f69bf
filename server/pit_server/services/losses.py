"""Processes of nodes that do not come back: they are lost, and are told to stop should they still run.

What a lost process held stays taken until its node says that nothing of it is left: so no GPU is
given to two, whoever was wrong about the node.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.states import ProcessState
from pit_server.db.models import IS_LIVE, Allocation, Attempt, Fact, Node, Process
from pit_server.services import lifecycle, settling

TERM = "lease_term"
MARGIN_S = 5.0  # leases are counted in whole seconds, and a kill takes a moment


@dataclass(frozen=True)
class Term:
    """After how much silence of its node a process can no longer run, by the lease that it was given."""

    lost_after_s: float
    grace_s: float
    after: int = 0  # attempts up to this id were given other leases, or none

    @property
    def silence_s(self) -> float:
        return self.lost_after_s + self.grace_s + MARGIN_S


def begin_term(session: Session, lost_after_s: float, grace_s: float) -> Term | None:
    """The term of the leases that are given from now on, noted where it has changed; None: there are none."""
    fact = session.get(Fact, TERM) or Fact(name=TERM, value="0 0 0")
    known_s, known_grace_s, after = fact.value.split()
    if (float(known_s), float(known_grace_s)) != (lost_after_s, grace_s):
        after = str(session.execute(select(func.max(Attempt.id))).scalar_one() or 0)
        fact.value = f"{lost_after_s!r} {grace_s!r} {after}"
        session.add(fact)
        session.flush()
    return Term(lost_after_s, grace_s, int(after)) if lost_after_s else None


def expire(session: Session, node_id: int, term: Term, *, now: float) -> list[int]:
    """Take for lost what ran on a silent node and has ended by its lease; the numbers of the jobs."""
    name = session.execute(select(Node.name).where(Node.id == node_id)).scalar_one()
    reason = f"its node {name} has had no word with the head for more than {term.lost_after_s:g} s"
    return give_up(session, node_id, reason, now=now, after=term.after)


def give_up(
    session: Session, node_id: int, reason: str, *, now: float, actor: str = lifecycle.HEAD, after: int = 0
) -> list[int]:
    """Take all that ran on a node for lost, of attempts `after` an id; the numbers of the jobs."""
    query = lifecycle.PROCESSES.where(Process.node_id == node_id, IS_LIVE, Process.attempt_id > after)
    # In the order in which all lock jobs.
    processes = session.execute(query.order_by(Process.job_id, Process.id)).all()
    for process in processes:
        settling.lose(session, process, reason, now=now, actor=actor)
    return sorted({process.job_id for process in processes})


def list_occupied(session: Session) -> list[int]:
    """Nodes on which something may run."""
    query = select(Process.node_id).where(IS_LIVE).distinct()
    return list(session.execute(query).scalars())


def list_over(session: Session, node_id: int, running: Collection[int]) -> list[int]:
    """Lost processes that still hold something on a node which runs none but `running`."""
    query = (
        select(Process.id)
        .join(Allocation, Allocation.process_id == Process.id)
        .where(Allocation.node_id == node_id, Allocation.released_at.is_(None))
        .where(Process.state == ProcessState.ENDED)
        .distinct()
    )
    return sorted(set(session.execute(query).scalars()) - set(running))
