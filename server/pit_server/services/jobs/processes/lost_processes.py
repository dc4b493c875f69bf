"""Lost processes: those of a node that does not come back. If they still run, they are ordered to stop.

A lost process keeps its allocations until its node reports that it no longer runs. So no GPU is
given to two processes, even if the node was only cut off.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.states import ProcessState
from pit_server.db.models import IS_LIVE, Allocation, Attempt, Node, Process
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.processes import reports

MARGIN_S = 5.0  # leases have a resolution of one second, and killing takes time
# For so long must a node be silent before the processes of an attempt must have ended by their leases.
SILENCE_S = Attempt.lost_after_s + Attempt.grace_s + MARGIN_S


def list_leases(session: Session, node_ids: Collection[int]) -> dict[int, list[float]]:
    """After how many seconds of silence live processes of these nodes are lost, in order."""
    query = (
        select(Process.node_id, SILENCE_S)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .where(Process.node_id.in_(node_ids), IS_LIVE, Attempt.lost_after_s.is_not(None))
        .distinct()
    )
    found: defaultdict[int, list[float]] = defaultdict(list)
    for node_id, silence_s in session.execute(query):
        found[node_id].append(float(silence_s or 0))
    return {node_id: sorted(leases) for node_id, leases in found.items()}


def expire_leases(session: Session, node_id: int, silent_s: float, *, now: float) -> list[int]:
    """Mark the processes of a silent node lost whose leases have run out; returns the job numbers."""
    name = session.execute(select(Node.name).where(Node.id == node_id)).scalar_one()
    over = select(Attempt.id, Attempt.lost_after_s).where(silent_s >= SILENCE_S)
    over = over.where(Attempt.id.in_(select(Process.attempt_id).where(Process.node_id == node_id, IS_LIVE)))
    reasons = {
        row.id: f"its node {name} had no contact with the head for more than {row.lost_after_s:g} s"
        for row in session.execute(over)
    }
    return _mark_lost(session, node_id, reasons, now=now, actor=lifecycle.HEAD)


def mark_lost(session: Session, node_id: int, reason: str, *, now: float, actor: str) -> list[int]:
    """Mark all live processes of a node lost; returns the job numbers."""
    query = select(Process.attempt_id).where(Process.node_id == node_id, IS_LIVE)
    reasons = dict.fromkeys(session.execute(query).scalars(), reason)
    return _mark_lost(session, node_id, reasons, now=now, actor=actor)


def _mark_lost(
    session: Session, node_id: int, reasons: Mapping[int, str], *, now: float, actor: str
) -> list[int]:
    """Mark the node's live processes of these attempts lost."""
    query = lifecycle.PROCESSES.where(Process.node_id == node_id, IS_LIVE, Process.attempt_id.in_(reasons))
    # Jobs are always locked in this order, which prevents deadlocks.
    processes = session.execute(query.order_by(Process.job_id, Process.rank, Process.id)).all()
    for process in processes:
        reports.end_lost(session, process, reasons[process.attempt_id], now=now, actor=actor)
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
