"""What nodes have and what is used on them; nodes as the API shows them."""

from collections import defaultdict
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from pit_protocol.answers import nodes as answers
from pit_protocol.states import NodeState
from pit_server.db.memo import remembered
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
    SiteAllocation,
    User,
)
from pit_server.scheduler.kinds import CPU, MEMORY
from pit_server.services.files import unix_ids
from pit_server.services.nodes import maintenance, node_jobs
from pit_server.services.nodes.aliases import kind_names
from pit_server.services.users.access import resource_access, visible
from pit_server.services.users.tokens import Caller

MIN_SLOTS = 8


class Used(NamedTuple):
    """What the live processes of one node use."""

    processes: int
    cpu_milli: int
    memory_mib: int


NOTHING = Used(0, 0, 0)


def default_slots(cores: int) -> int:
    return max(MIN_SLOTS, 2 * cores)


def shown_state(node: Node, now: float) -> str:
    """The state to show: what the admin set, except for a node that should be online and is not."""
    if node.state == node.service == NodeState.ONLINE and maintenance.has_begun(node, now):
        return NodeState.DRAINING
    if node.service == NodeState.MAINTENANCE or node.state == NodeState.ONLINE:
        return node.service
    return node.state


def count_users(session: Session) -> int:
    """How many people use the cluster, whose jobs must be kept apart."""
    query = select(func.count()).select_from(User).where(User.is_active, User.removed_at.is_(None))
    return remembered(session, "count of users", (User,), lambda reader: reader.execute(query).scalar_one())


def trouble_of(node: Node, users: int) -> str:
    """Why a node of a head with so many users takes no new processes; empty if it does."""
    if node.trouble or users < 2 or node.shared_account or unix_ids.separates(node):
        return node.trouble
    return (
        f"all users' jobs would run as {_account(node)} there; "
        f"an admin can allow that: `pit set node:{node.name} shared_account=yes`"
    )


def is_open(node: Node, users: int, now: float) -> bool:
    """Whether the node takes new processes."""
    return is_in_service(node, now) and not trouble_of(node, users)


def is_in_service(node: Node, now: float) -> bool:
    """Whether the node is online, and its admin wants it to be."""
    return shown_state(node, now) == NodeState.ONLINE and node.removed_at is None


def records(session: Session, caller: Caller, name: str | None = None, *, now: float) -> list[answers.Node]:
    """Nodes as the API shows them; a job that the caller may not see is not named."""
    # A pilot whose allocation still waits is no machine yet.
    is_there = Node.site_allocation_id.is_(None) | (Node.state != NodeState.NEW)
    query = select(Node).where(Node.removed_at.is_(None), is_there).order_by(Node.name)
    nodes = session.execute(query.where(Node.name == name) if name else query).scalars().all()
    used, users = used_by_node(session), count_users(session)
    resources, jobs = _resource_records(session, caller), node_jobs.list_all(session, caller)
    groups, ends = _group_names(session, NodeGroup), _allocation_ends(session)
    return [
        answers.Node(
            name=node.name,
            state=shown_state(node, now),
            since=node.since,
            epoch=node.epoch,
            address=node.fixed_address or node.address,
            cores=node.cores,
            memory_mib=node.memory_mib,
            slots=slots_of(node),
            free_slots=slots_of(node) - used.get(node.id, NOTHING).processes,
            labels=node.labels,
            groups=groups.get(node.id, []),
            runtime=node.runtime,
            run_as="user" if unix_ids.separates(node) else _account(node),
            shared_account=node.shared_account,
            trouble=trouble_of(node, users) if node.epoch else "",
            resources=resources.get(node.id, []),
            free_cores=node.cores - used.get(node.id, NOTHING).cpu_milli / 1000,
            free_memory_mib=node.memory_mib - used.get(node.id, NOTHING).memory_mib,
            reason=maintenance.reason_of(node, now),
            maintenance=maintenance.render(node, now),
            jobs=jobs.get(node.id, []),
            host=node.host,
            ends_at=ends.get(node.site_allocation_id or 0),
        )
        for node in nodes
    ]


def _allocation_ends(session: Session) -> dict[int, float]:
    """When the allocations of pilots end by their time limits."""
    query = select(SiteAllocation.id, SiteAllocation.ends_at).where(SiteAllocation.state != "ended")
    return {row.id: row.ends_at for row in session.execute(query) if row.ends_at}


def _account(node: Node) -> str:
    return node.account or "its worker's account"


def slots_of(node: Node) -> int:
    return node.slots if node.slots is not None else default_slots(node.cores)


def used_by_node(session: Session) -> dict[int, Used]:
    """What live processes use, by node."""
    live = select(Process.node_id, func.count()).where(IS_LIVE).group_by(Process.node_id)
    processes = {row[0]: row[1] for row in session.execute(live)}
    amounts: dict[tuple[int, str], int] = {
        (node_id, kind): int(amount)
        for node_id, kind, amount in session.execute(
            select(Allocation.node_id, Allocation.kind, func.sum(Allocation.amount))
            .where(Allocation.released_at.is_(None), Allocation.unit.is_(None))
            .group_by(Allocation.node_id, Allocation.kind)
        )
    }
    return {
        node_id: Used(
            processes.get(node_id, 0), amounts.get((node_id, CPU), 0), amounts.get((node_id, MEMORY), 0)
        )
        for node_id in {*processes, *(node_id for node_id, _ in amounts)}
    }


def _group_names(session: Session, kept: type[NodeGroup] | type[ResourceGroup]) -> dict[int, list[str]]:
    """Per node or resource, the groups that it is reserved for."""
    key = kept.node_id if kept is NodeGroup else ResourceGroup.resource_id
    query = select(key, Group.name).join(Group, Group.id == kept.group_id).order_by(Group.name)
    found: dict[int, list[str]] = defaultdict(list)
    for kept_id, name in session.execute(query):
        found[kept_id].append(name)
    return found


def _resource_records(session: Session, caller: Caller) -> dict[int, list[answers.NodeResource]]:
    names = kind_names(session)
    groups = _group_names(session, ResourceGroup)
    result: dict[int, list[answers.NodeResource]] = defaultdict(list)
    owner = aliased(Job)
    held = (
        select(Allocation.node_id, Allocation.unit, User.name.label("user"))
        .add_columns(func.coalesce(owner.array_job, owner.id).label("job_id"))
        .join(Process, Process.id == Allocation.process_id)
        .join(owner, owner.id == Process.job_id)
        .join(User, User.id == owner.user_id)
        .where(Allocation.released_at.is_(None), Allocation.unit.is_not(None))
        .subquery()
    )
    closed = resource_access(session).access_of(caller.user_id or 0).closed_units
    for resource, holder, job, user in session.execute(
        select(Resource, held.c.job_id, Job.id, held.c.user)
        .outerjoin(held, (held.c.node_id == Resource.node_id) & (held.c.unit == Resource.unit))
        .outerjoin(Job, (Job.id == held.c.job_id) & visible(caller))
        .where(Resource.is_present)
        .order_by(Resource.node_id, Resource.position)
    ):
        result[resource.node_id].append(
            answers.NodeResource(
                index=resource.position,
                model=resource.model,
                kind=names.kind(resource.kind),
                aliases=names.aliases(resource.kind),
                unit=resource.unit,
                memory_mib=resource.memory_mib,
                pci=resource.pci,
                trouble=resource.trouble,
                groups=groups.get(resource.id, []),
                free=holder is None and not resource.trouble,
                job=job,
                user=user or "",
                usable=(resource.node_id, resource.unit) not in closed,
            )
        )
    return result
