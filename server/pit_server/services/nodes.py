"""Nodes: how they join, whether they are there, and what their admin wants of them."""

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from pit_protocol.beat import Hello, Inventory, Trouble
from pit_protocol.problem import Problem
from pit_protocol.states import NodeState
from pit_server.bells import SCHEDULER, STATUS
from pit_server.db.database import change_orders, ring_after_commit
from pit_server.db.models import IS_LIVE, Group, Node, NodeGroup, Process, Resource, ResourceGroup
from pit_server.services import aliases, losses, names, tokens
from pit_server.services.inputs import check_text, storable
from pit_server.services.properties import Property, read_count, read_text

MAX_NAME = 255
MAX_LABELS = 100
MAX_INDEX = 1_000_000  # of a node's resources; more than any has
SERVICES = (NodeState.ONLINE, NodeState.DRAINING, NodeState.MAINTENANCE)
LABEL = "label."
_FORCE = "`pit remove node:{} --lost` takes them for lost, and should it return it is told to stop them"
ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?|::[0-9a-f:.]*")


def _read_service(name: str, text: str) -> str:
    if text not in SERVICES:
        raise Problem(
            "bad_state", f"{name} must be one of {', '.join(SERVICES)}, not {text[:40]!r}", status=422
        )
    return text


def _read_label(name: str, text: str) -> str:
    names.check_name("label", name.removeprefix(LABEL))
    if any(character in text for character in ",@[]="):
        raise Problem("bad_label", f"{name}: a label has none of , @ [ ] = in it", status=422)
    return read_text("label", text)


def _read_address(name: str, text: str) -> str:
    check_address(name, text)
    return text


PROPERTIES = (
    Property("state", _read_service),
    Property("address", _read_address),
    Property("slots", read_count),
    Property(LABEL, _read_label),
)


def check_address(what: str, text: str) -> None:
    """Raise a Problem unless it is empty or can be a host's name or address: scripts will use it."""
    if text and (len(text) > MAX_NAME or not ADDRESS.fullmatch(text)):
        raise Problem("bad_address", f"{what}: {text[:40]!r} is no name or address of a machine", status=422)


def add(session: Session, name: str, *, now: float) -> Node:
    """Register a node; one that was removed comes back as new."""
    names.check_name("node", name)
    node = session.execute(select(Node).where(Node.name == name).with_for_update()).scalar_one_or_none()
    if node is not None and node.removed_at is None:
        raise names.exists("node", name)
    if node is None:
        node = Node(name=name, labels={}, epoch=0, cores=0, memory_mib=0)
        session.add(node)
    else:
        tokens.revoke_all(session, node_id=node.id)  # one that was gone may have kept its own
    node.state, node.since, node.service, node.removed_at = NodeState.NEW, now, NodeState.ONLINE, None
    session.flush()
    return node


def find(session: Session, name: str, *, lock: bool = False) -> Node:
    """The node; `lock` it to change what depends on what it is."""
    query = select(Node).where(Node.name == name, Node.removed_at.is_(None))
    node = session.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if node is None:
        raise names.unknown("node", name)
    return node


def make_join_code(session: Session, node: Node, *, now: float, good_for_s: float) -> tuple[str, float]:
    """A code by which a machine becomes this node, once; and until when."""
    expires_at = now + good_for_s
    _, code = tokens.issue(session, node_id=node.id, now=now, expires_at=expires_at, label="join", joins=True)
    return code, expires_at


def join(session: Session, node_id: int, code_id: int, *, now: float) -> tuple[str, str]:
    """Use up a join code: the node's name and the token of its worker; any other machine's ends."""
    node = session.execute(select(Node).where(Node.id == node_id).with_for_update()).scalar_one()
    tokens.use_up(session, code_id)
    tokens.revoke_all(session, node_id=node_id)
    _, text = tokens.issue(session, node_id=node_id, now=now, expires_at=None, label="worker")
    return node.name, text


def set_properties(
    session: Session, node: Node, values: Sequence[tuple[Property, str, Any]], *, now: float
) -> None:
    labels = dict(node.labels)
    for _, name, value in values:
        if name == "state":
            if value == NodeState.MAINTENANCE:
                _check_empty(session, node, f"`pit set node:{node.name} state=draining` lets them end")
            node.service, node.since = value, now
        elif name == "address":
            node.fixed_address = value
        elif name == "slots":
            node.slots = value
        else:
            labels[name.removeprefix(LABEL)] = value
    node.labels = {name: value for name, value in labels.items() if value}
    if len(node.labels) > MAX_LABELS:
        raise Problem("bad_label", f"a node has at most {MAX_LABELS} labels", status=422)
    session.flush()
    ring_after_commit(session, SCHEDULER, STATUS)


def remove(session: Session, node: Node, *, now: float) -> None:
    """Remove a node on which nothing runs; its worker's token ends."""
    way_out = f"`pit remove node:{node.name} --drain` waits for their end"
    if node.state != NodeState.ONLINE:
        way_out += f"; if the node will never come back, {_FORCE.format(node.name)}"
    _check_empty(session, node, way_out)
    tokens.revoke_all(session, node_id=node.id)
    _take_out(session, node, now=now)


def give_up(session: Session, name: str, *, now: float, actor: str) -> list[int]:
    """Remove a node that is gone, with all that ran there; the numbers of the jobs that are lost.

    If it comes back its worker may still speak, to be told what to stop.
    """
    # Not locked yet: whoever locks jobs and nodes in one transaction takes the jobs first.
    node = find(session, name)
    if node.state == NodeState.ONLINE:
        raise _there(node)
    reason = f"its node {name} was removed by {actor}, as one that does not come back"
    numbers = losses.give_up(session, node.id, reason, now=now, actor=actor)
    session.refresh(node, with_for_update=True)
    if node.state == NodeState.ONLINE:
        raise _there(node)
    tokens.revoke_all(session, node_id=node.id, only_codes=bool(numbers))
    _take_out(session, node, now=now)
    return numbers


def _there(node: Node) -> Problem:
    return Problem(
        "is_online",
        f"node {node.name} is there: nothing that runs on it is given up",
        f"`pit remove node:{node.name} --drain` waits for the end of its processes",
        status=409,
    )


def _take_out(session: Session, node: Node, *, now: float) -> None:
    session.execute(delete(NodeGroup).where(NodeGroup.node_id == node.id))
    resources = select(Resource.id).where(Resource.node_id == node.id)
    session.execute(delete(ResourceGroup).where(ResourceGroup.resource_id.in_(resources)))
    node.removed_at, node.state, node.labels, node.slots = now, NodeState.NEW, {}, None
    node.fixed_address = ""
    session.flush()
    ring_after_commit(session, SCHEDULER, STATUS)


def keep(session: Session, node: Node, group: Group, index: int | None = None) -> bool:
    """Keep a node, or its resource at `index`, for a group's members; False if it is."""
    table, key = _keeping(session, node, group, index)
    if session.get(table, key):
        return False
    session.execute(insert(table).values(**key))
    ring_after_commit(session, SCHEDULER, STATUS)
    return True


def release(session: Session, node: Node, group: Group, index: int | None = None) -> None:
    """No longer keep a node or a resource for a group."""
    table, key = _keeping(session, node, group, index)
    row = session.get(table, key)
    if row is None:
        thing = f"node {node.name}" if index is None else f"resource {node.name}:{index}"
        raise Problem(
            "not_kept", f"{thing} is not kept for {group.name}", f"`pit show node:{node.name}`", status=404
        )
    session.delete(row)
    session.flush()
    ring_after_commit(session, SCHEDULER, STATUS)


def begin_session(session: Session, node_id: int, hello: Hello, *, now: float) -> Node:
    """Open a new epoch of the node: from here on, an older worker cannot speak for it."""
    _check(hello)
    node = session.execute(select(Node).where(Node.id == node_id).with_for_update()).scalar_one()
    node.epoch += 1
    node.boot_id, node.address = hello.boot_id, hello.address
    node.cores, node.memory_mib = hello.inventory.cores, hello.inventory.memory_mib
    node.runtime, node.overlay = hello.runtime, hello.overlay
    _note_resources(session, node_id, hello.inventory)
    session.flush()
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


def note_troubles(session: Session, node_id: int, troubles: Sequence[Trouble]) -> None:
    """Remember which resources must not be given away, and why; all others are well."""
    reasons = {trouble.unit: storable(trouble.reason)[:MAX_NAME] or "in trouble" for trouble in troubles}
    query = select(Resource).where(Resource.node_id == node_id, Resource.is_present).with_for_update()
    for resource in session.execute(query).scalars():
        resource.trouble = reasons.get(resource.unit, "")
    session.flush()
    ring_after_commit(session, SCHEDULER, STATUS)


def note_trouble(session: Session, node_id: int, trouble: str) -> None:
    """Remember why a node takes no new processes; empty: it does."""
    session.execute(update(Node).where(Node.id == node_id).values(trouble=trouble))
    ring_after_commit(session, SCHEDULER, STATUS)


def troubles_of(session: Session, node_id: int) -> dict[str, str]:
    """What is remembered of the node's resources, by unit."""
    query = select(Resource.unit, Resource.trouble).where(
        Resource.node_id == node_id, Resource.is_present, Resource.trouble != ""
    )
    return {row.unit: row.trouble for row in session.execute(query)}


def _check_empty(session: Session, node: Node, way_out: str) -> None:
    query = (
        select(Process.job_id).where(Process.node_id == node.id, IS_LIVE).distinct().order_by(Process.job_id)
    )
    if running := list(session.execute(query).scalars()):
        silent = ", and it is offline" if node.state == NodeState.OFFLINE else ""
        why = f"{names.jobs(running)} processes there{silent}"
        raise names.in_use(f"node {node.name}", why, way_out)


def _keeping(
    session: Session, node: Node, group: Group, index: int | None
) -> tuple[type[NodeGroup] | type[ResourceGroup], dict[str, int]]:
    if index is None:
        return NodeGroup, {"node_id": node.id, "group_id": group.id}
    resource = (
        None
        if index > MAX_INDEX
        else session.execute(
            select(Resource.id).where(
                Resource.node_id == node.id, Resource.position == index, Resource.is_present
            )
        ).scalar_one_or_none()
    )
    if resource is None:
        raise Problem(
            "no_such_resource",
            f"node {node.name} has no resource {index}",
            f"`pit show node:{node.name}` lists them",
            status=404,
        )
    return ResourceGroup, {"resource_id": resource, "group_id": group.id}


def _check(hello: Hello) -> None:
    inventory = hello.inventory
    if inventory.cores < 1 or inventory.memory_mib < 1:
        raise Problem("bad_inventory", "a node has at least one core and one MiB", status=422)
    units = [resource.unit for resource in inventory.resources]
    if len(set(units)) < len(units):
        raise Problem("bad_inventory", "the inventory names one unit twice", status=422)
    models = [resource.model for resource in inventory.resources]
    check_address("address", hello.address)
    places = [resource.pci for resource in inventory.resources]
    for text in (hello.boot_id, hello.address, hello.overlay, *units, *models, *places):
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
        # Its trouble stays: a sick one must not be given away before the first beat tells anew.
        row.position, row.is_present = position, True
        row.model, row.kind = found.model, aliases.fold(found.model)
        row.memory_mib, row.pci = found.memory_mib, found.pci
    for model in dict.fromkeys(resource.model for resource in inventory.resources):
        aliases.note_model(session, model)
