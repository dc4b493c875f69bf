"""The nodes as the scheduler sees them, read from the database as values."""

from collections import Counter, defaultdict
from math import inf

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of
from pit_protocol.durations import parse_duration
from pit_protocol.states import JobState, NodeState
from pit_server.db.database import AnyRow
from pit_server.db.memo import remembered
from pit_server.db.models import IS_LIVE, Alias, Allocation, Attempt, Job, Node, Process, Resource
from pit_server.scheduler.capacity import Held, NodeView, Share, Window
from pit_server.scheduler.kinds import CPU, MEMORY, PORT
from pit_server.services.jobs.processes import hostnames
from pit_server.services.nodes import capacity, maintenance
from pit_server.services.nodes.aliases import kind_names
from pit_server.services.scheduling.run_times import RunTimes


def free_nodes(session: Session, run_times: RunTimes, *, now: float) -> list[NodeView]:
    """The nodes that take new processes, with what is free on them and what becomes free when."""
    used, taken, held = _read_held(session, run_times, now)
    units, users = _units(session, with_trouble=False), capacity.count_users(session)
    return [
        _view(
            node,
            now,
            used=used.get(node.id, capacity.NOTHING),
            held=tuple(held[node.id]),
            windows=(Window(*window),) if (window := maintenance.find(node, now)) else (),
            units={
                kind: tuple(unit for unit in present if unit not in taken[node.id])
                for kind, present in units.get(node.id, {}).items()
            },
        )
        for node in _list_nodes(session)
        if capacity.is_open(node, users, now)
    ]


def idle_nodes(session: Session, *, now: float) -> list[NodeView]:
    """All nodes that have ever been online, with what they would have if nothing ran."""
    units, faulty = _units(session, with_trouble=True), _count_faulty(session)
    users = capacity.count_users(session)
    return [
        _view(
            node,
            now,
            units={kind: tuple(present) for kind, present in units.get(node.id, {}).items()},
            faulty=faulty.get(node.id, {}),
            trouble=capacity.trouble_of(node, users) if capacity.is_in_service(node, now) else "",
        )
        for node in _list_nodes(session)
        if node.state != NodeState.NEW
    ]


def pilot_nodes(session: Session, allocation_id: int, *, now: float) -> list[NodeView]:
    """The pilots of an allocation that take processes; nothing else runs on them."""
    users = capacity.count_users(session)
    query = select(Node).where(Node.site_allocation_id == allocation_id).order_by(Node.id)
    found = [node for node in session.execute(query).scalars() if capacity.is_open(node, users, now)]
    units = _units(session, with_trouble=False)
    return [
        _view(node, now, units={kind: tuple(present) for kind, present in units.get(node.id, {}).items()})
        for node in found
    ]


def _view(
    node: Node,
    now: float,
    *,
    units: dict[str, tuple[str, ...]],
    used: capacity.Used = capacity.NOTHING,
    faulty: dict[str, int] | None = None,
    trouble: str = "",
    held: tuple[Held, ...] = (),
    windows: tuple[Window, ...] = (),
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
        state=capacity.shown_state(node, now),
        faulty_units=faulty or {},
        held=held,
        windows=windows,
        remark=maintenance.reason_of(node, now),
        network=hostnames.network_of(node),
    )


def _list_nodes(session: Session) -> list[Node]:
    """All but pilots, on which only the job of their allocation runs."""
    own = Node.site_allocation_id.is_(None)
    query = select(Node).where(Node.removed_at.is_(None), own).order_by(Node.name)
    return remembered(session, "nodes", (Node,), lambda reader: list(reader.execute(query).scalars()))


def _read_held(
    session: Session, run_times: RunTimes, now: float
) -> tuple[dict[int, capacity.Used], defaultdict[int, set[str]], defaultdict[int, list[Held]]]:
    """Per node what is used of it, which units, and by which processes until when by their time limits."""
    amounts: defaultdict[int, dict[str, int]] = defaultdict(dict)  # by process
    units: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    sums: Counter[tuple[int, str]] = Counter()  # by node and kind
    taken: defaultdict[int, set[str]] = defaultdict(set)
    names = kind_names(session)
    for row in session.execute(_UNRELEASED):
        if row.unit is None:
            amounts[row.process_id][row.kind] = row.amount
            sums[row.node_id, row.kind] += row.amount
        else:
            units[row.process_id].append((names.kind(row.kind), row.unit))
            taken[row.node_id].add(row.unit)
    held: defaultdict[int, list[Held]] = defaultdict(list)
    live: Counter[int] = Counter()
    for row in session.execute(_HOLDING):
        # What a lost process holds stays held until its node is back.
        until = _planned_end(row, run_times, now) if row.is_live else inf
        mine = amounts[row.id]
        share = Share(mine.get(CPU), mine.get(MEMORY), tuple(units[row.id]))
        held[row.node_id].append(Held(array_of(row.job_id), until, share))
        live[row.node_id] += row.is_live
    used = {
        node_id: capacity.Used(live[node_id], sums[node_id, CPU], sums[node_id, MEMORY])
        for node_id in {*live, *(node_id for node_id, _ in sums)}
    }
    return used, taken, held


_UNRELEASED = (
    select(Allocation.process_id, Allocation.node_id, Allocation.kind, Allocation.unit, Allocation.amount)
    .where(Allocation.released_at.is_(None), Allocation.kind != PORT)
    .order_by(Allocation.id)
)
_HOLDING = (
    select(Process.id, Process.node_id, Process.job_id, IS_LIVE.label("is_live"))
    .add_columns(Attempt.created_at, Job.user_id, Job.title, Job.since)
    .add_columns(Job.options["time"].as_string().label("time"), Job.state.label("job_state"))
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .where(
        or_(IS_LIVE, Process.id.in_(select(Allocation.process_id).where(Allocation.released_at.is_(None))))
    )
    .order_by(Process.id)
)


def _planned_end(row: AnyRow, run_times: RunTimes, now: float) -> float:
    """The time limit counts from the first instruction; one that has not begun may begin now."""
    if not row.time:
        return run_times.planned_end(row.user_id, row.title, row.created_at, now)
    begun = {JobState.STARTING: now, JobState.RUNNING: row.since}.get(row.job_state, row.created_at)
    return run_times.planned_end(row.user_id, row.title, begun, now, parse_duration(row.time))


def _units(session: Session, *, with_trouble: bool) -> dict[int, dict[str, list[str]]]:
    """Per node and kind the units that are present, with or without those in trouble."""
    usable = Resource.is_present if with_trouble else Resource.is_present & (Resource.trouble == "")
    query = select(Resource.node_id, Resource.kind, Resource.unit).where(usable)

    def read(reader: Session) -> dict[int, dict[str, list[str]]]:
        names = kind_names(reader)
        units: dict[int, dict[str, list[str]]] = {}
        for row in reader.execute(query.order_by(Resource.node_id, Resource.position)):
            units.setdefault(row.node_id, {}).setdefault(names.kind(row.kind), []).append(row.unit)
        return units

    return remembered(session, ("units", with_trouble), (Resource, Alias), read)


def _count_faulty(session: Session) -> dict[int, dict[str, int]]:
    """Per node and kind the number of units in trouble."""
    query = select(Resource.node_id, Resource.kind).where(Resource.is_present, Resource.trouble != "")

    def read(reader: Session) -> dict[int, dict[str, int]]:
        names = kind_names(reader)
        faulty: dict[int, Counter[str]] = {}
        for row in reader.execute(query):
            faulty.setdefault(row.node_id, Counter())[names.kind(row.kind)] += 1
        return {node_id: dict(found) for node_id, found in faulty.items()}

    return remembered(session, "faulty units", (Resource, Alias), read)
