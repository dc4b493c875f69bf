"""Everything the scheduler decides on, read from the database as values."""

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_grammar import Need, parse
from pit_grammar.request import UNITS
from pit_protocol.states import JobState, NodeState
from pit_server.db.models import IS_LIVE, Allocation, Job, Node, Process, Resource, User
from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.kinds import CPU, MEMORY, PORT, SLOT
from pit_server.scheduler.plan import Waiting
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs import requeue
from pit_server.services.jobs.processes import hostnames, runtimes
from pit_server.services.nodes import capacity
from pit_server.services.nodes.aliases import KindNames
from pit_server.services.users import deactivation
from pit_server.services.users.access import ResourceAccess
from pit_server.settings import Settings

_parse = lru_cache(maxsize=4096)(parse)


@dataclass(frozen=True)
class SchedulingInput:
    queue: list[Waiting]
    free: list[NodeView]  # nodes that take new processes, with what is free on them
    idle: list[NodeView]  # all nodes, with what they would have if nothing ran
    held: dict[int, Reason]  # jobs that wait, but not for nodes


def default_needs(settings: Settings) -> tuple[Need, ...]:
    """What is booked for a process that does not say how many cores or how much memory it needs."""
    amounts = ((CPU, settings.default_cpu), (MEMORY, settings.default_mem))
    units = [(kind, round(amount * UNITS[kind])) for kind, amount in amounts]
    return tuple(Need(kind, Decimal(count) / UNITS[kind]) for kind, count in units if count)


def load(session: Session, defaults: tuple[Need, ...] = ()) -> SchedulingInput:
    """Read the queue and the nodes at one moment; nodes are not read for an empty queue."""
    waiting = session.execute(
        select(Job.id, Job.request, Job.user_id, Job.options, Job.attempt, User.name, User.is_active)
        .join(User, User.id == Job.user_id)
        .where(Job.state == JobState.WAITING)
        .order_by(Job.id)
    ).all()
    rows = [row for row in waiting if row.is_active]
    held = {row.id: Reason(deactivation.hold_reason(row.name)) for row in waiting if not row.is_active}
    if not rows:
        return SchedulingInput([], [], [], held)
    kinds, resources = KindNames(session).kinds(), ResourceAccess(session)
    texts = {row.request for row in rows}
    requests = {text: _parse(text).with_defaults(defaults).renamed(kinds) for text in texts}
    faulty = requeue.faulty_nodes(session, [row.id for row in rows if row.attempt > 1])
    queue = [
        Waiting(
            row.id,
            requests[row.request],
            resources.access_of(row.user_id, runtimes.needed(row.options)),
            faulty.get(row.id, frozenset()),
        )
        for row in rows
    ]
    return SchedulingInput(queue, free_nodes(session), idle_nodes(session), held)


def free_nodes(session: Session) -> list[NodeView]:
    """The nodes that take new processes, with what is free on them."""
    used, taken, users = capacity.used_by_node(session), _taken_units(session), capacity.count_users(session)
    holders = _holders(session)
    units = _units(session, with_trouble=False)
    return [
        _view(
            node,
            used=used.get(node.id, capacity.NOTHING),
            holders=holders[node.id],
            units={
                kind: tuple(unit for unit in present if unit not in taken[node.id])
                for kind, present in units[node.id].items()
            },
        )
        for node in _list_nodes(session)
        if capacity.is_open(node, users)
    ]


def idle_nodes(session: Session) -> list[NodeView]:
    """All nodes that have ever been online, with what they would have if nothing ran."""
    units, faulty = _units(session, with_trouble=True), _count_faulty(session)
    users = capacity.count_users(session)
    return [
        _view(
            node,
            units={kind: tuple(present) for kind, present in units[node.id].items()},
            faulty=faulty[node.id],
            trouble=capacity.trouble_of(node, users) if capacity.is_in_service(node) else "",
        )
        for node in _list_nodes(session)
        if node.state != NodeState.NEW
    ]


def _view(
    node: Node,
    *,
    units: dict[str, tuple[str, ...]],
    used: capacity.Used = capacity.NOTHING,
    faulty: dict[str, int] | None = None,
    trouble: str = "",
    holders: dict[str, set[int]] | None = None,
) -> NodeView:
    return NodeView(
        id=node.id,
        name=node.name,
        slots=capacity.slots_of(node) - used.processes,
        cpu_milli=node.cores * 1000 - used.cpu_milli,
        memory_mib=node.memory_mib - used.memory_mib,
        units=units,
        labels=dict(node.labels),
        trouble=trouble,
        state=capacity.shown_state(node),
        faulty_units=faulty or {},
        holders=holders or {},
        remark=node.service_reason,
        network=hostnames.network_of(node),
    )


def _list_nodes(session: Session) -> list[Node]:
    query = select(Node).where(Node.removed_at.is_(None)).order_by(Node.name)
    return list(session.execute(query).scalars())


def _taken_units(session: Session) -> defaultdict[int, set[str]]:
    taken: defaultdict[int, set[str]] = defaultdict(set)
    for node_id, unit in session.execute(
        select(Allocation.node_id, Allocation.unit).where(
            Allocation.released_at.is_(None), Allocation.unit.is_not(None), Allocation.kind != PORT
        )
    ):
        taken[node_id].add(str(unit))
    return taken


def _holders(session: Session) -> defaultdict[int, dict[str, set[int]]]:
    """Per node and kind the jobs that hold some of it."""
    holders: defaultdict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    held = (
        select(Allocation.node_id, Allocation.kind, Process.job_id)
        .join(Process, Process.id == Allocation.process_id)
        .where(Allocation.released_at.is_(None), Allocation.kind != PORT)
    )
    for row in session.execute(held.distinct()):
        holders[row.node_id][row.kind].add(row.job_id)
    live = select(Process.node_id, Process.job_id).where(IS_LIVE).distinct()
    for node_id, job_id in session.execute(live):
        holders[node_id][SLOT].add(job_id)
    return holders


def _units(session: Session, *, with_trouble: bool) -> defaultdict[int, dict[str, list[str]]]:
    """Per node and kind the units that are present, with or without those in trouble."""
    names = KindNames(session)
    units: defaultdict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    usable = Resource.is_present if with_trouble else Resource.is_present & (Resource.trouble == "")
    for row in session.execute(
        select(Resource.node_id, Resource.kind, Resource.unit)
        .where(usable)
        .order_by(Resource.node_id, Resource.position)
    ):
        units[row.node_id][names.kind(row.kind)].append(row.unit)
    return units


def _count_faulty(session: Session) -> defaultdict[int, dict[str, int]]:
    """Per node and kind the number of units in trouble."""
    names = KindNames(session)
    faulty: defaultdict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in session.execute(
        select(Resource.node_id, Resource.kind).where(Resource.is_present, Resource.trouble != "")
    ):
        faulty[row.node_id][names.kind(row.kind)] += 1
    return faulty
