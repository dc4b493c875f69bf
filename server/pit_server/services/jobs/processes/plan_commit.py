"""Commit a plan: store its attempts, processes and allocations, or drop what is stale."""

import logging
from collections.abc import Iterable, Sequence

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import job_name
from pit_protocol.states import JobEvent, ProcessEvent, ProcessState
from pit_server.db.database import Database, change_orders, note_event
from pit_server.db.models import Allocation, Attempt, Node, Process
from pit_server.scheduler.kinds import CPU, MEMORY, PORT
from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.placement import ProcessPlacement
from pit_server.scheduler.plan import Plan
from pit_server.services.jobs import lifecycle, requeue
from pit_server.services.jobs.arrays.elements import NewElements
from pit_server.services.jobs.processes.hostnames import choose_hostnames
from pit_server.services.nodes.capacity import count_users, is_open
from pit_server.settings import Settings

log = logging.getLogger(__name__)
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
    placed = []
    with database.write() as session:
        users = count_users(session)
        online = {
            node.id: node for node in session.execute(select(Node)).scalars() if is_open(node, users, now)
        }
        ports = _Ports(session)
        elements = NewElements(session, [job.number for job in placements])
        for job in placements:
            if any(process.node_id not in online for process in job.processes):
                continue
            try:
                _place(session, job, online, ports, elements, settings, now=now)
            except (lifecycle.IllegalMove, lifecycle.StaleState) as error:
                log.info("job %s was not placed: %s", job_name(job.number), error)
                continue
            placed.append(job.number)
        elements.finish()
        _check_still_open(session, session.info.get("nodes", ()), now=now)
    return placed


def _check_still_open(session: Session, node_ids: Iterable[int], *, now: float) -> None:
    """Lock the nodes and check that they still take jobs. Comes last: jobs are always locked before nodes."""
    query = select(Node).where(Node.id.in_(node_ids)).order_by(Node.id).with_for_update()
    rows = session.execute(query.execution_options(populate_existing=True)).scalars()
    users = count_users(session)
    if closed := [node.name for node in rows if not is_open(node, users, now)]:
        raise lifecycle.StaleState(f"node {closed[0]} is no longer open")


def _place(
    session: Session,
    job: JobPlacement,
    online: dict[int, Node],
    ports: "_Ports",
    elements: NewElements,
    settings: Settings,
    *,
    now: float,
) -> None:
    names = sorted({online[process.node_id].name for process in job.processes})
    port = ports.take(job.processes[0].node_id, job.number)
    reason = f"on {', '.join(names)}"
    if elements.is_new(job.number):
        number = elements.start(job.number, now=now, reason=reason).attempt
    else:
        waiting = lifecycle.lock(session, job.number)
        number = lifecycle.advance(session, waiting, JobEvent.PLACED, now=now, reason=reason).attempt
    master = job.processes[0]
    hostnames = choose_hostnames(job.number, number, job.processes, online)
    attempt = Attempt(
        job_id=job.number,
        number=number,
        master_port=port,
        created_at=now,
        network=hostnames.network,
        lost_after_s=settings.lease_s(has_retry=requeue.has_retry(session, job.number)),
        grace_s=settings.grace_s,
    )
    session.add(attempt)
    session.flush()
    processes = [
        _process(job.number, attempt.id, rank, p, hostnames.hosts[rank])
        for rank, p in enumerate(job.processes)
    ]
    session.add_all(processes)
    session.flush()
    rows = [
        row
        for process, p in zip(processes, job.processes, strict=True)
        for row in _allocations(process.id, p)
    ]
    rows.append(_allocation(processes[0].id, master.node_id, PORT, _port_unit(attempt.master_port), 1))
    session.execute(insert(Allocation), rows)
    for process in processes:
        note_event(
            session,
            job_id=job.number,
            process_id=process.id,
            attempt=number,
            event=ProcessEvent.ASSIGNED,
            from_state=None,
            to_state=ProcessState.ASSIGNED,
            actor=lifecycle.HEAD,
            at=now,
        )
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


class _Ports:
    """Allocates each job's master port; no port is used twice on one node."""

    def __init__(self, session: Session) -> None:
        query = select(Allocation.node_id, Allocation.unit).where(
            Allocation.kind == PORT, Allocation.released_at.is_(None)
        )
        self._taken = {(row.node_id, row.unit) for row in session.execute(query)}

    def take(self, node_id: int, number: int) -> int:
        # Round robin by job number, so that a port in TIME_WAIT is not reused at once.
        ports = (FIRST_PORT + (number + step) % PORTS for step in range(PORTS))
        port = next((port for port in ports if (node_id, _port_unit(port)) not in self._taken), None)
        if port is None:
            raise lifecycle.StaleState("all ports of its node are in use")
        self._taken.add((node_id, _port_unit(port)))
        return port
