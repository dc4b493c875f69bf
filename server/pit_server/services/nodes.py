"""Nodes: what they have, whether they are there, and what is free on them."""

from collections import defaultdict
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pit_protocol.beat import Hello, Inventory
from pit_protocol.problem import Problem
from pit_protocol.states import NodeState
from pit_server.bells import SCHEDULER, STATUS
from pit_server.db.database import change_orders, ring_after_commit
from pit_server.db.models import IS_LIVE, Allocation, Node, Process, Resource
from pit_server.scheduler.capacity import NodeView
from pit_server.services.inputs import check_text
from pit_server.services.people import check_name

MIN_SLOTS = 8
MAX_NAME = 255
CPU, MEMORY, PORT = "cpu", "mem", "port"  # kinds of allocations that are no resources of a node


def default_slots(cores: int) -> int:
    return max(MIN_SLOTS, 2 * cores)


def fold(model: str) -> str:
    """A model's name as requests write it: blanks and case folded away."""
    return "".join(model.split()).lower()


def add_node(session: Session, name: str, *, now: float) -> Node:
    """The node of that name, made if there is none yet."""
    check_name("node", name)
    node = session.execute(select(Node).where(Node.name == name)).scalar_one_or_none()
    if node is None:
        node = Node(name=name, state=NodeState.NEW, since=now, labels={})
        session.add(node)
        session.flush()
    return node


def find_node(session: Session, name: str) -> Node:
    node = session.execute(select(Node).where(Node.name == name)).scalar_one_or_none()
    if node is None:
        raise Problem("no_such_node", f"there is no node {name}", "`pit show nodes` lists them", status=404)
    return node


def begin_session(session: Session, node_id: int, hello: Hello, *, now: float) -> Node:
    """Open a new epoch of the node: from here on, an older worker cannot speak for it."""
    _check(hello)
    node = session.execute(select(Node).where(Node.id == node_id).with_for_update()).scalar_one()
    node.epoch += 1
    node.boot_id, node.address = hello.boot_id, hello.address
    node.cores, node.memory_mib = hello.inventory.cores, hello.inventory.memory_mib
    _note_resources(session, node_id, hello.inventory)
    set_state(session, node_id, NodeState.ONLINE, now=now)
    change_orders(session, node_id)
    return node


def set_state(session: Session, node_id: int, state: NodeState, *, now: float) -> bool:
    """Note that a node is there or not; False if that was known."""
    moved = session.execute(
        update(Node).where(Node.id == node_id, Node.state != state).values(state=state, since=now)
    )
    ring_after_commit(session, SCHEDULER, STATUS)
    return bool(moved.rowcount)  # type: ignore[attr-defined]


def views(session: Session, *, idle: bool = False) -> list[NodeView]:
    """What the nodes can give: those online what is free now, or all of them what they would have idle."""
    rows = session.execute(select(Node).order_by(Node.name)).scalars().all()
    nodes = [n for n in rows if (n.state != NodeState.NEW if idle else n.state == NodeState.ONLINE)]
    used = _used(session) if not idle else {}
    taken = _taken_units(session) if not idle else {}
    units = _units(session)
    result = []
    for node in nodes:
        processes, cpu, memory = used.get(node.id, (0, 0, 0))
        free = {
            kind: tuple(unit for unit in all_units if unit not in taken.get(node.id, ()))
            for kind, all_units in units.get(node.id, {}).items()
        }
        slots = (node.slots if node.slots is not None else default_slots(node.cores)) - processes
        result.append(
            NodeView(
                node.id,
                node.name,
                slots,
                node.cores * 1000 - cpu,
                node.memory_mib - memory,
                free,
                dict(node.labels),
            )
        )
    return result


def records(session: Session, name: str | None = None) -> list[dict[str, Any]]:
    """Nodes as the API shows them."""
    query = select(Node).order_by(Node.name)
    nodes = session.execute(query.where(Node.name == name) if name else query).scalars().all()
    used = _used(session)
    resources = _resource_records(session)
    result = []
    for node in nodes:
        slots = node.slots if node.slots is not None else default_slots(node.cores)
        result.append(
            {
                "name": node.name,
                "state": node.state,
                "since": node.since,
                "epoch": node.epoch,
                "address": node.address,
                "cores": node.cores,
                "memory_mib": node.memory_mib,
                "slots": slots,
                "free_slots": slots - used.get(node.id, (0, 0, 0))[0],
                "labels": node.labels,
                "resources": resources.get(node.id, []),
            }
        )
    return result


def _check(hello: Hello) -> None:
    inventory = hello.inventory
    if inventory.cores < 1 or inventory.memory_mib < 1:
        raise Problem("bad_inventory", "a node has at least one core and one MiB", status=422)
    units = [resource.unit for resource in inventory.resources]
    if len(set(units)) < len(units):
        raise Problem("bad_inventory", "the inventory names one unit twice", status=422)
    models = [resource.model for resource in inventory.resources]
    for text in (hello.boot_id, hello.address, *units, *models):
        check_text("name", text, MAX_NAME)


def _note_resources(session: Session, node_id: int, inventory: Inventory) -> None:
    known = {
        r.unit: r for r in session.execute(select(Resource).where(Resource.node_id == node_id)).scalars()
    }
    for resource in known.values():
        resource.is_present = False
    for position, found in enumerate(inventory.resources):
        row = known.get(found.unit)
        if row is None:
            row = Resource(node_id=node_id, unit=found.unit)
            session.add(row)
        row.position, row.model, row.kind, row.is_present = position, found.model, fold(found.model), True


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


def _units(session: Session) -> dict[int, dict[str, list[str]]]:
    units: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in session.execute(
        select(Resource.node_id, Resource.kind, Resource.unit)
        .where(Resource.is_present)
        .order_by(Resource.node_id, Resource.position)
    ):
        units[row.node_id][row.kind].append(row.unit)
    return units


def _resource_records(session: Session) -> dict[int, list[dict[str, Any]]]:
    result: dict[int, list[dict[str, Any]]] = defaultdict(list)
    held = (
        select(Allocation.node_id, Allocation.unit, Process.job_id)
        .join(Process, Process.id == Allocation.process_id)
        .where(Allocation.released_at.is_(None), Allocation.unit.is_not(None))
        .subquery()
    )
    for resource, job in session.execute(
        select(Resource, held.c.job_id)
        .outerjoin(held, (held.c.node_id == Resource.node_id) & (held.c.unit == Resource.unit))
        .where(Resource.is_present)
        .order_by(Resource.node_id, Resource.position)
    ):
        result[resource.node_id].append(
            {
                "index": resource.position,
                "model": resource.model,
                "kind": resource.kind,
                "unit": resource.unit,
                "job": job,
            }
        )
    return result
