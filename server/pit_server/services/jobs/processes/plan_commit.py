"""Commit a plan: store its attempts, processes and allocations, or drop what is stale."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import job_name
from pit_protocol.states import JOB_MOVES, JobEvent, ProcessEvent, ProcessState
from pit_server.db import sequences
from pit_server.db.database import AnyRow, Database, change_orders, insert_all, note_event
from pit_server.db.models import Allocation, Attempt, Node, Process, random_id
from pit_server.scheduler.kinds import CPU, MEMORY, PORT
from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.placement import ProcessPlacement
from pit_server.scheduler.plan import Plan
from pit_server.services.jobs import lifecycle, requeue
from pit_server.services.jobs.arrays.elements import NewElements
from pit_server.services.jobs.lifecycle import LockedJob
from pit_server.services.jobs.processes.hostnames import choose_hostnames
from pit_server.services.nodes.capacity import count_users, is_open
from pit_server.settings import Settings

log = logging.getLogger(__name__)
PLACED = JobEvent.PLACED
FIRST_PORT, PORTS = 20_000, 10_000  # below the ephemeral ports of the kernel


def commit(database: Database, plan: Plan, settings: Settings, *, now: float) -> list[int]:
    """Store the placements that are still valid; returns the numbers of the placed jobs."""
    try:
        return _commit(database, plan.placements, settings, now=now)
    except IntegrityError as error:
        log.error("the plan allocates something twice: %s", error.orig)
    except lifecycle.StaleState as error:
        log.info("the plan is stale: %s", error)
    # The transaction was rolled back. Commit job by job, so that only the invalid ones keep waiting.
    return [number for job in plan.placements for number in _commit_alone(database, job, settings, now=now)]


def _commit_alone(database: Database, job: JobPlacement, settings: Settings, *, now: float) -> list[int]:
    try:
        return _commit(database, (job,), settings, now=now)
    except (IntegrityError, lifecycle.StaleState):
        return []


def _commit(
    database: Database, placements: Sequence[JobPlacement], settings: Settings, *, now: float
) -> list[int]:
    with database.write() as session:
        users = count_users(session)
        online = {
            node.id: node for node in session.execute(select(Node)).scalars() if is_open(node, users, now)
        }
        chosen = [job for job in placements if all(process.node_id in online for process in job.processes)]
        ports = _take_ports(session, chosen, online)
        started = _start(session, [job for job in chosen if job.number in ports], online, now=now)
        placed = [job for job in chosen if job.number in started]
        if placed:
            _store(session, placed, started, ports, online, settings, now=now)
        _check_still_open(session, session.info.get("nodes", ()), now=now)
    return [job.number for job in placed]


def _check_still_open(session: Session, node_ids: Iterable[int], *, now: float) -> None:
    """Lock the nodes and check that they still take jobs. Comes last: jobs are always locked before nodes."""
    query = select(Node).where(Node.id.in_(node_ids)).order_by(Node.id).with_for_update()
    rows = session.execute(query.execution_options(populate_existing=True)).scalars()
    users = count_users(session)
    if closed := [node.name for node in rows if not is_open(node, users, now)]:
        raise lifecycle.StaleState(f"node {closed[0]} is no longer open")


def _start(
    session: Session, placements: Sequence[JobPlacement], online: Mapping[int, Node], *, now: float
) -> dict[int, LockedJob]:
    """The jobs that start now: those that still wait, and elements that are next in their arrays."""
    elements = NewElements(session, [job.number for job in placements])
    reasons = {
        job.number: f"on {', '.join(sorted({online[process.node_id].name for process in job.processes}))}"
        for job in placements
    }
    started = {}
    for number in filter(elements.is_new, reasons):
        try:
            started[number] = elements.start(number, now=now, reason=reasons[number])
        except (lifecycle.IllegalMove, lifecycle.StaleState) as error:
            log.info("job %s was not placed: %s", job_name(number), error)
    known = [number for number in reasons if not elements.is_new(number) and number not in started]
    elements.finish()
    locked = lifecycle.lock_all(session, known) if known else {}
    waiting = [locked[number] for number in known if (locked[number].state, PLACED) in JOB_MOVES]
    for number in {*known} - {job.number for job in waiting}:
        log.info("job %s was not placed: it is %s", job_name(number), locked[number].state)
    moved = lifecycle.advance_all(session, waiting, PLACED, now=now, reasons=reasons)
    return started | {job.number: job for job in moved}


def _store(
    session: Session,
    placed: Sequence[JobPlacement],
    started: Mapping[int, LockedJob],
    ports: Mapping[int, int],
    online: dict[int, Node],
    settings: Settings,
    *,
    now: float,
) -> None:
    """Insert the attempts of jobs that start, with their processes and what these hold."""
    names = {
        job.number: choose_hostnames(job.number, started[job.number].attempt, job.processes, online)
        for job in placed
    }
    attempts: list[dict[str, Any]] = [
        {
            "job_id": job.number,
            "number": started[job.number].attempt,
            "master_port": ports[job.number],
            "created_at": now,
            "network": names[job.number].network,
            "lost_after_s": settings.lease_s(has_retry=requeue.has_retry(started[job.number].options)),
            "grace_s": settings.grace_s,
        }
        for job in placed
    ]
    ids = _insert_attempts(session, attempts)
    processes: list[dict[str, object]] = []
    allocations: list[dict[str, object]] = []
    for job in placed:
        for rank, (place, host) in enumerate(zip(job.processes, names[job.number].hosts, strict=True)):
            row = _process(job.number, ids[job.number], rank, place, host)
            processes.append(row)
            allocations += _allocations(row["id"], place)
            if rank == 0:
                allocations.append(
                    _allocation(row["id"], place.node_id, PORT, _port_unit(ports[job.number]), 1)
                )
            _note_assigned(session, row, started[job.number].attempt, now=now)
            change_orders(session, place.node_id)
    insert_all(session, Process, processes)
    insert_all(session, Allocation, allocations)


def _insert_attempts(session: Session, rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The ids of new attempts, by job."""
    statement = insert(Attempt).returning(Attempt.job_id, Attempt.id)
    ids = {row.job_id: row.id for row in session.connection().execute(statement, rows)}
    sequences.note_inserted(session, Attempt, max(ids.values()))
    return ids


def _note_assigned(session: Session, process: Mapping[str, Any], attempt: int, *, now: float) -> None:
    note_event(
        session,
        job_id=process["job_id"],
        process_id=process["id"],
        attempt=attempt,
        event=ProcessEvent.ASSIGNED,
        to_state=ProcessState.ASSIGNED,
        actor=lifecycle.HEAD,
        at=now,
    )


def _process(
    number: int, attempt_id: int, rank: int, placement: ProcessPlacement, host: str
) -> dict[str, Any]:
    return {
        "id": random_id(),
        "job_id": number,
        "attempt_id": attempt_id,
        "rank": rank,
        "group_index": placement.group,
        "process_index": placement.index,
        "node_id": placement.node_id,
        "host": host,
        "state": ProcessState.ASSIGNED,
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


def _port_unit(port: int) -> str:
    """The unit name of a port; the prefix keeps it apart from GPUs."""
    return f"port/{port}"


def _take_ports(
    session: Session, placements: Sequence[JobPlacement], online: Mapping[int, Node]
) -> dict[int, int]:
    """Each job's master port; none is used twice on one machine. A job for which there is none has none."""
    query = (
        select(Allocation.node_id, Node.address, Node.site_allocation_id, Allocation.unit)
        .join(Node, Node.id == Allocation.node_id)
        .where(Allocation.kind == PORT, Allocation.released_at.is_(None))
    )
    taken = {(_machine(row, row.node_id), row.unit) for row in session.execute(query)}
    found = {}
    for job in placements:
        node_id = job.processes[0].node_id
        machine = _machine(online[node_id], node_id)
        # Round robin by job number, so that a port in TIME_WAIT is not reused at once.
        ports = (FIRST_PORT + (job.number + step) % PORTS for step in range(PORTS))
        port = next((port for port in ports if (machine, _port_unit(port)) not in taken), None)
        if port is None:
            log.info("job %s was not placed: all ports of its node are in use", job_name(job.number))
            continue
        taken.add((machine, _port_unit(port)))
        found[job.number] = port
    return found


def _machine(node: Node | AnyRow, node_id: int) -> int | str:
    """What ports are unique on: pilots of several allocations may run on one machine."""
    return node_id if node.site_allocation_id is None else str(node.address)
