"""Committing a plan: what was decided becomes attempts, processes and allocations, or is dropped as stale."""

import logging
from collections.abc import Iterable

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pit_protocol.states import JobEvent, NodeState, ProcessEvent, ProcessState
from pit_server.db.database import change_orders
from pit_server.db.models import Allocation, Attempt, Event, Job, Node, Process
from pit_server.scheduler.fit import ProcessPlacement
from pit_server.scheduler.plan import JobPlacement, Plan
from pit_server.services import lifecycle
from pit_server.services.nodes import CPU, MEMORY, PORT

log = logging.getLogger(__name__)
FIRST_PORT, PORTS = 20_000, 10_000  # below the range that kernels give out by themselves


def commit(session: Session, plan: Plan, *, now: float) -> list[int]:
    """Carry out what of the plan still holds; the numbers of the jobs that were placed."""
    online = {
        row.id: (row.name, row.address)
        for row in session.execute(
            select(Node.id, Node.name, Node.address).where(Node.state == NodeState.ONLINE)
        )
    }
    placed = []
    for job in plan.placements:
        if any(process.node_id not in online for process in job.processes):
            continue
        try:
            with session.begin_nested():
                _place(session, job, online, now=now)
        except (lifecycle.IllegalMove, lifecycle.Overtaken, IntegrityError) as error:
            log.info("job %d was not placed: %s", job.number, error)
            continue
        placed.append(job.number)
    return placed


def _place(session: Session, job: JobPlacement, online: dict[int, tuple[str, str]], *, now: float) -> None:
    names = sorted({online[process.node_id][0] for process in job.processes})
    lifecycle.advance(session, job.number, JobEvent.PLACED, now=now, reason=f"on {', '.join(names)}")
    number = session.execute(select(Job.attempt).where(Job.id == job.number)).scalar_one()
    master = job.processes[0]
    attempt = Attempt(
        job_id=job.number,
        number=number,
        master_port=_free_port(session, master.node_id, job.number),
        created_at=now,
    )
    session.add(attempt)
    session.flush()
    processes = [
        _process(job.number, attempt.id, rank, p, online[p.node_id][1])
        for rank, p in enumerate(job.processes)
    ]
    session.add_all(processes)
    session.flush()
    rows = [
        row
        for process, p in zip(processes, job.processes, strict=True)
        for row in _allocations(process.id, p)
    ]
    rows.append(_allocation(processes[0].id, master.node_id, PORT, str(attempt.master_port), 1))
    session.execute(insert(Allocation), rows)
    session.execute(insert(Event), [_event(job.number, number, process, now) for process in processes])
    for node_id in {process.node_id for process in job.processes}:
        change_orders(session, node_id)


def _process(number: int, attempt_id: int, rank: int, placement: ProcessPlacement, host: str) -> Process:
    return Process(
        job_id=number,
        attempt_id=attempt_id,
        rank=rank,
        group_index=placement.group,
        process_index=placement.index,
        node_id=placement.node_id,
        host=host,
        state=ProcessState.ASSIGNED,
    )


def _event(number: int, attempt: int, process: Process, now: float) -> dict[str, object]:
    return {
        "job_id": number,
        "process_id": process.id,
        "attempt": attempt,
        "event": ProcessEvent.ASSIGNED,
        "from_state": None,
        "to_state": ProcessState.ASSIGNED,
        "actor": lifecycle.HEAD,
        "reason": "",
        "at": now,
    }


def _allocations(process_id: int, placement: ProcessPlacement) -> Iterable[dict[str, object]]:
    share = placement.share
    for kind, unit in share.units:
        yield _allocation(process_id, placement.node_id, kind, unit, 1)
    for kind, amount in ((CPU, share.cpu_milli), (MEMORY, share.memory_mib)):
        if amount is not None:
            yield _allocation(process_id, placement.node_id, kind, None, amount)


def _allocation(process_id: int, node_id: int, kind: str, unit: str | None, amount: int) -> dict[str, object]:
    return {"process_id": process_id, "node_id": node_id, "kind": kind, "unit": unit, "amount": amount}


def _free_port(session: Session, node_id: int, number: int) -> int:
    """A port for the job's processes to meet at, that no other running job was given on that node."""
    taken = set(
        session.execute(
            select(Allocation.unit).where(
                Allocation.node_id == node_id, Allocation.kind == PORT, Allocation.released_at.is_(None)
            )
        ).scalars()
    )
    # Round robin by job number, so that a port just left (TIME_WAIT) is not given again at once.
    ports = (FIRST_PORT + (number + step) % PORTS for step in range(PORTS))
    return next(port for port in ports if str(port) not in taken)
