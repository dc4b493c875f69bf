"""What nodes have and what is free on them, for the scheduler and for people."""

from collections import defaultdict
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.states import NodeState
from pit_server.db.models import (
    IS_LIVE,
    Allocation,
    Group,
    Job,
    Node,
    NodeGroup,
    Process,
    Resource,
    ResourceGroup,
)
from pit_server.scheduler.capacity import NodeView
from pit_server.services.access import visible
from pit_server.services.aliases import Names
from pit_server.services.tokens import Caller

MIN_SLOTS = 8
CPU, MEMORY, PORT = "cpu", "mem", "port"  # kinds of allocations that are no resources of a node


def default_slots(cores: int) -> int:
    return max(MIN_SLOTS, 2 * cores)


def shown_state(node: Node) -> str:
    """What people are told: the admin's word for a node that is there, or that is not meant to be."""
    if node.service == NodeState.MAINTENANCE or node.state == NodeState.ONLINE:
        return node.service
    return node.state


def is_open(node: Node) -> bool:
    """Whether new processes may be placed there."""
    return _is_in_service(node) and not node.trouble


def _is_in_service(node: Node) -> bool:
    return bool(node.state == node.service == NodeState.ONLINE and node.removed_at is None)


def views(session: Session, *, idle: bool = False) -> list[NodeView]:
    """What nodes can give: the open ones what is free now, or all what they have when idle."""
    rows = session.execute(select(Node).where(Node.removed_at.is_(None)).order_by(Node.name)).scalars().all()
    nodes = [node for node in rows if (node.state != NodeState.NEW if idle else is_open(node))]
    used = _used(session) if not idle else {}
    taken = _taken_units(session) if not idle else {}
    units = _units(session, with_trouble=idle)
    sick = _sick(session) if idle else {}
    result = []
    for node in nodes:
        processes, cpu, memory = used.get(node.id, (0, 0, 0))
        free = {
            kind: tuple(unit for unit in all_units if unit not in taken.get(node.id, ()))
            for kind, all_units in units.get(node.id, {}).items()
        }
        result.append(
            NodeView(
                node.id,
                node.name,
                _slots(node) - processes,
                node.cores * 1000 - cpu,
                node.memory_mib - memory,
                free,
                dict(node.labels),
                node.trouble if _is_in_service(node) else "",
                shown_state(node),
                sick.get(node.id, {}),
            )
        )
    return result


def records(session: Session, caller: Caller, name: str | None = None) -> list[dict[str, Any]]:
    """Nodes as the API shows them; a job that the caller may not see is not named."""
    query = select(Node).where(Node.removed_at.is_(None)).order_by(Node.name)
    nodes = session.execute(query.where(Node.name == name) if name else query).scalars().all()
    used = _used(session)
    resources = _resource_records(session, caller)
    groups = _group_names(session, NodeGroup)
    return [
        {
            "name": node.name,
            "state": shown_state(node),
            "since": node.since,
            "epoch": node.epoch,
            "address": node.fixed_address or node.address,
            "cores": node.cores,
            "memory_mib": node.memory_mib,
            "slots": _slots(node),
            "free_slots": _slots(node) - used.get(node.id, (0, 0, 0))[0],
            "labels": node.labels,
            "groups": groups.get(node.id, []),
            "runtime": node.runtime,
            "trouble": node.trouble,
            "resources": resources.get(node.id, []),
        }
        for node in nodes
    ]


def _slots(node: Node) -> int:
    return node.slots if node.slots is not None else default_slots(node.cores)


def _used(session: Session) -> dict[int, tuple[int, int, int]]:
    """Per node: live processes, thousandths of cores, MiB."""
    result: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for node_id, count in session.execute(
        select(Process.node_id, func.count()).where(IS_LIVE).group_by(Process.node_id)
    ):
        result[node_id][0] = count
    for node_id, kind, amount in session.execute(
        select(Allocation.node_id, Allocation.kind, func.sum(Allocation.amount))
        .where(Allocation.released_at.is_(None), Allocation.unit.is_(None))
        .group_by(Allocation.node_id, Allocation.kind)
    ):
        result[node_id][1 if kind == CPU else 2] = int(amount)
    return {node_id: (used[0], used[1], used[2]) for node_id, used in result.items()}


def _taken_units(session: Session) -> dict[int, set[str]]:
    taken: dict[int, set[str]] = defaultdict(set)
    for node_id, unit in session.execute(
        select(Allocation.node_id, Allocation.unit).where(
            Allocation.released_at.is_(None), Allocation.unit.is_not(None), Allocation.kind != PORT
        )
    ):
        taken[node_id].add(str(unit))
    return taken


def _units(session: Session, *, with_trouble: bool) -> dict[int, dict[str, list[str]]]:
    """Per node and kind, as requests call it, the units; also those that cannot be given away now."""
    names = Names(session)
    units: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    well = Resource.is_present if with_trouble else Resource.is_present & (Resource.trouble == "")
    for row in session.execute(
        select(Resource.node_id, Resource.kind, Resource.unit)
        .where(well)
        .order_by(Resource.node_id, Resource.position)
    ):
        units[row.node_id][names.kind(row.kind)].append(row.unit)
    return units


def _sick(session: Session) -> dict[int, dict[str, int]]:
    """Per node and kind, how many units are not given away for their trouble."""
    names = Names(session)
    sick: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in session.execute(
        select(Resource.node_id, Resource.kind).where(Resource.is_present, Resource.trouble != "")
    ):
        sick[row.node_id][names.kind(row.kind)] += 1
    return sick


def _group_names(session: Session, kept: type[NodeGroup] | type[ResourceGroup]) -> dict[int, list[str]]:
    """Per node, or per resource, the groups that it is kept for."""
    key = kept.node_id if kept is NodeGroup else ResourceGroup.resource_id
    query = select(key, Group.name).join(Group, Group.id == kept.group_id).order_by(Group.name)
    found: dict[int, list[str]] = defaultdict(list)
    for kept_id, name in session.execute(query):
        found[kept_id].append(name)
    return found


def _resource_records(session: Session, caller: Caller) -> dict[int, list[dict[str, Any]]]:
    names = Names(session)
    groups = _group_names(session, ResourceGroup)
    result: dict[int, list[dict[str, Any]]] = defaultdict(list)
    held = (
        select(Allocation.node_id, Allocation.unit, Process.job_id)
        .join(Process, Process.id == Allocation.process_id)
        .where(Allocation.released_at.is_(None), Allocation.unit.is_not(None))
        .subquery()
    )
    for resource, holder, job in session.execute(
        select(Resource, held.c.job_id, Job.id)
        .outerjoin(held, (held.c.node_id == Resource.node_id) & (held.c.unit == Resource.unit))
        .outerjoin(Job, (Job.id == held.c.job_id) & visible(caller))
        .where(Resource.is_present)
        .order_by(Resource.node_id, Resource.position)
    ):
        result[resource.node_id].append(
            {
                "index": resource.position,
                "model": resource.model,
                "kind": names.kind(resource.kind),
                "aliases": names.aliases(resource.kind),
                "unit": resource.unit,
                "memory_mib": resource.memory_mib,
                "pci": resource.pci,
                "trouble": resource.trouble,
                "groups": groups.get(resource.id, []),
                "free": holder is None and not resource.trouble,
                "job": job,
            }
        )
    return result
