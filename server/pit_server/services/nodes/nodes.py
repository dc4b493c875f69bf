"""Nodes: adding, joining, properties, groups, removal."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_protocol.states import NodeState
from pit_server.db.database import notify_after_commit
from pit_server.db.models import IS_LIVE, Group, Node, NodeGroup, Process, Resource, ResourceGroup, Site
from pit_server.services import names
from pit_server.services.jobs.processes import lost_processes
from pit_server.services.nodes import maintenance
from pit_server.services.nodes.properties import LABEL, check_address
from pit_server.services.properties import Property
from pit_server.services.users import tokens
from pit_server.wakeups import SCHEDULER, STATUS, job_topic

MAX_LABELS = 100
MAX_INDEX = 1_000_000  # of a node's resources; no node has more
_FORCE = "`pit remove node:{} --lost` marks them lost, and stops them should it return"


def add(session: Session, name: str, *, now: float) -> Node:
    """Add a node; a removed one is added again as new."""
    names.check_name("node", name)
    if session.execute(select(Site.id).where(Site.name == name, Site.removed_at.is_(None))).first():
        raise Problem("exists", f"there is a site {name} already", "give the node another name", status=409)
    node = session.execute(select(Node).where(Node.name == name).with_for_update()).scalar_one_or_none()
    if node is not None and node.removed_at is None:
        raise names.exists("node", name)
    if node is None:
        node = Node(name=name, labels={}, epoch=0, cores=0, memory_mib=0)
        session.add(node)
    else:
        tokens.revoke_all(session, node_id=node.id)  # a lost node may have kept its token
    node.state, node.since, node.service, node.removed_at = NodeState.NEW, now, NodeState.ONLINE, None
    session.flush()
    return node


def find(session: Session, name: str, *, lock: bool = False) -> Node:
    """The node of that name; `lock` it before changing it or what depends on it."""
    query = select(Node).where(Node.name == name, Node.removed_at.is_(None))
    node = session.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if node is None:
        raise names.unknown("node", name)
    return node


def make_join_code(session: Session, node: Node, *, now: float, good_for_s: float) -> tuple[str, float]:
    """Create a code that lets one machine join as this node; returns it and its expiry."""
    expires_at = now + good_for_s
    _, code = tokens.issue(session, node_id=node.id, now=now, expires_at=expires_at, label="join", joins=True)
    return code, expires_at


def join(session: Session, node_id: int, code_id: int, *, now: float) -> tuple[str, str]:
    """Consume a join code; returns the node's name and its worker's token. Older tokens are revoked."""
    node = session.execute(select(Node).where(Node.id == node_id).with_for_update()).scalar_one()
    tokens.use_up(session, code_id)
    tokens.revoke_all(session, node_id=node_id)
    _, text = tokens.issue(session, node_id=node_id, now=now, expires_at=None, label="worker")
    return node.name, text


def note_host(session: Session, node_id: int, host: str) -> None:
    """Store what its site calls the machine of a pilot."""
    check_address("host", host)
    session.execute(update(Node).where(Node.id == node_id).values(host=host))


def set_properties(
    session: Session, node: Node, values: Sequence[tuple[Property, str, Any]], *, now: float
) -> None:
    labels = dict(node.labels)
    for _, name, value in values:
        if name == "state":
            if value == NodeState.MAINTENANCE:
                _check_empty(session, node, f"`pit set node:{node.name} state=draining` lets them end")
            node.service = value
            if node.state != NodeState.OFFLINE:  # of a silent node, `since` is its last sign of life
                node.since = now
            node.service_reason, node.failures = "", {}
        elif name == "reason":
            pass  # after the state, whichever comes first
        elif name == "maintenance":
            maintenance.put(node, value, now=now)
        elif name == "address":
            node.fixed_address = value
        elif name == "slots":
            node.slots = value
        elif name == "shared_account":
            node.shared_account = value
        else:
            labels[name.removeprefix(LABEL)] = value
    for reason in (value for _, name, value in values if name == "reason"):
        if reason and node.service == NodeState.ONLINE:
            hint = f"`pit set node:{node.name} state=draining reason=…`"
            raise Problem(
                "bad_reason", f"node {node.name} is in service and needs no reason", hint, status=422
            )
        node.service_reason = reason
    node.labels = {name: value for name, value in labels.items() if value}
    if len(node.labels) > MAX_LABELS:
        raise Problem("bad_label", f"a node has at most {MAX_LABELS} labels", status=422)
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)


def remove(session: Session, node: Node, *, now: float) -> None:
    """Remove a node on which nothing runs, and revoke its worker's token."""
    way_out = f"`pit remove node:{node.name} --drain` waits for their end"
    if node.state != NodeState.ONLINE:
        way_out += f"; if the node will never come back, {_FORCE.format(node.name)}"
    _check_empty(session, node, way_out)
    tokens.revoke_all(session, node_id=node.id)
    mark_removed(session, node, now=now)


def give_up(session: Session, name: str, *, now: float, actor: str) -> list[int]:
    """Remove a node that will not come back; returns the numbers of the jobs that are lost with it.

    Its worker's token stays valid, so that a returning worker learns what to stop.
    """
    # Not locked yet: a transaction that locks jobs and nodes must lock the jobs first.
    node = find(session, name)
    if node.state == NodeState.ONLINE:
        raise _is_online(node)
    reason = f"its node {name} was removed as lost by {actor}"
    numbers = lost_processes.mark_lost(session, node.id, reason, now=now, actor=actor)
    session.refresh(node, with_for_update=True)
    if node.state == NodeState.ONLINE:
        raise _is_online(node)
    tokens.revoke_all(session, node_id=node.id, only_codes=bool(numbers))
    mark_removed(session, node, now=now)
    return numbers


def _is_online(node: Node) -> Problem:
    return Problem(
        "is_online",
        f"node {node.name} is online, so its processes cannot be marked lost",
        f"`pit remove node:{node.name} --drain` waits for the end of its processes",
        status=409,
    )


def mark_removed(session: Session, node: Node, *, now: float) -> None:
    """Remove a node on which nothing runs any more; its row stays."""
    session.execute(delete(NodeGroup).where(NodeGroup.node_id == node.id))
    resources = select(Resource.id).where(Resource.node_id == node.id)
    session.execute(delete(ResourceGroup).where(ResourceGroup.resource_id.in_(resources)))
    node.removed_at, node.state, node.labels, node.slots = now, NodeState.NEW, {}, None
    node.fixed_address, node.service_reason, node.shared_account, node.failures = "", "", False, {}
    node.maintenance_start = node.maintenance_end = None
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)


def keep(session: Session, node: Node, group: Group, index: int | None = None) -> bool:
    """Keep a node, or its resource at `index`, for a group's members; False if it already is."""
    table, key = _group_row(session, node, group, index)
    if session.get(table, key):
        return False
    session.execute(insert(table).values(**key))
    notify_after_commit(session, SCHEDULER, STATUS)
    return True


def release(session: Session, node: Node, group: Group, index: int | None = None) -> None:
    """Stop keeping a node or a resource for a group."""
    table, key = _group_row(session, node, group, index)
    row = session.get(table, key)
    if row is None:
        thing = f"node {node.name}" if index is None else f"resource {node.name}:{index}"
        raise Problem(
            "not_reserved",
            f"{thing} is not reserved for {group.name}",
            f"`pit show node:{node.name}`",
            status=404,
        )
    session.delete(row)
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)


def set_state(session: Session, node_id: int, state: NodeState, *, now: float) -> bool:
    """Set whether a node is online; False if it was in that state."""
    moved = session.execute(
        update(Node).where(Node.id == node_id, Node.state != state).values(state=state, since=now)
    )
    notify_after_commit(session, SCHEDULER, STATUS)
    if not moved.rowcount:  # type: ignore[attr-defined]
        return False
    # Those who follow a job with processes there are told.
    live = select(Process.job_id).where(Process.node_id == node_id, IS_LIVE).distinct()
    notify_after_commit(session, *map(job_topic, session.execute(live).scalars()))
    return True


def _check_empty(session: Session, node: Node, way_out: str) -> None:
    query = (
        select(Process.job_id).where(Process.node_id == node.id, IS_LIVE).distinct().order_by(Process.job_id)
    )
    if running := list(session.execute(query).scalars()):
        silent = ", and it is offline" if node.state == NodeState.OFFLINE else ""
        why = f"{names.jobs(running)} processes there{silent}"
        raise names.in_use(f"node {node.name}", why, way_out)


def _group_row(
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
