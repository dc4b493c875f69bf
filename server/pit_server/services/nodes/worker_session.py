"""What a worker reports of its node: sessions, inventory and troubles."""

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.messages.beat import STALE_EPOCH, UNKNOWN_SESSION, Hello, Inventory, Trouble
from pit_protocol.problem import Problem
from pit_protocol.states import NodeState
from pit_server.db.database import AnyRow, change_orders, notify_after_commit
from pit_server.db.models import Node, Resource
from pit_server.scheduler.kinds import fold
from pit_server.services.nodes import aliases
from pit_server.services.nodes.nodes import set_state
from pit_server.services.nodes.properties import MAX_NAME, check_address
from pit_server.services.validation import check_text, storable
from pit_server.wakeups import SCHEDULER, STATUS


def begin(session: Session, node_id: int, hello: Hello, *, now: float) -> Node:
    """Begin a new epoch of the node; beats of an older worker are refused from now on."""
    _check(hello)
    node = session.execute(select(Node).where(Node.id == node_id).with_for_update()).scalar_one()
    if hello.epoch and hello.epoch < node.epoch:
        raise overtaken(node.name)
    if hello.spool and hello.spool == node.spool and hello.count <= node.hello_count:
        # It was on its way for long: the worker that sent it is gone, or has sent another one since.
        raise Problem("late_hello", f"node {node.name} has said hello again since", "try again", status=409)
    # A worker's own epoch is higher than the node's if the database was restored from a backup.
    node.epoch = max(node.epoch, hello.epoch) + 1
    node.boot_id, node.address = hello.boot_id, hello.address
    node.spool, node.hello_count = hello.spool, hello.count
    node.cores, node.memory_mib = hello.inventory.cores, hello.inventory.memory_mib
    node.runtime, node.overlay = hello.runtime, hello.overlay
    node.separates_users, node.account = hello.separates_users, hello.account
    if hello.trouble is not None:
        node.trouble = storable(hello.trouble)[:MAX_NAME]
    _store_resources(session, node_id, hello.inventory)
    session.flush()
    set_state(session, node_id, NodeState.ONLINE, now=now)
    change_orders(session, node_id)
    return node


def check(node: AnyRow, name: str, epoch: int, seen: int = 0) -> None:
    """Raise a Problem unless this is the node's current session.

    A session that has seen more than the database knows began before a backup was restored: its worker
    says hello again, and begins a session in which revisions of orders count from here.
    """
    if epoch > node.epoch or (epoch == node.epoch and seen > node.revision):
        raise Problem(
            UNKNOWN_SESSION,
            f"this head does not know epoch {epoch} of node {name}",
            "say hello again",
            status=409,
        )
    if epoch != node.epoch or not node.epoch:  # 0: no worker has begun a session yet
        raise overtaken(name)


def overtaken(name: str) -> Problem:
    return Problem(STALE_EPOCH, f"another worker has taken over node {name}", status=409)


def note_troubles(session: Session, node_id: int, troubles: Sequence[Trouble]) -> None:
    """Store which resources must not be allocated, and why; all others have no trouble."""
    reasons = {trouble.unit: storable(trouble.reason)[:MAX_NAME] or "in trouble" for trouble in troubles}
    query = select(Resource).where(Resource.node_id == node_id, Resource.is_present).with_for_update()
    for resource in session.execute(query).scalars():
        resource.trouble = reasons.get(resource.unit, "")
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)


def note_trouble(session: Session, node_id: int, trouble: str) -> None:
    """Store why a node takes no new processes; empty if it does."""
    session.execute(update(Node).where(Node.id == node_id).values(trouble=trouble))
    notify_after_commit(session, SCHEDULER, STATUS)


def list_troubles(session: Session, node_id: int) -> dict[str, str]:
    """The stored troubles of the node's resources, by unit."""
    query = select(Resource.unit, Resource.trouble).where(
        Resource.node_id == node_id, Resource.is_present, Resource.trouble != ""
    )
    return {row.unit: row.trouble for row in session.execute(query)}


def _check(hello: Hello) -> None:
    inventory = hello.inventory
    if inventory.cores < 1 or inventory.memory_mib < 1:
        raise Problem("bad_inventory", "a node has at least one core and one MiB", status=422)
    units = [resource.unit for resource in inventory.resources]
    if len(set(units)) < len(units):
        raise Problem("bad_inventory", "the inventory has the same unit twice", status=422)
    models = [resource.model for resource in inventory.resources]
    check_address("address", hello.address)
    places = [resource.pci for resource in inventory.resources]
    named = (hello.boot_id, hello.address, hello.overlay, hello.account, hello.spool)
    for text in (*named, *units, *models, *places):
        check_text("name", text, MAX_NAME)


def _store_resources(session: Session, node_id: int, inventory: Inventory) -> None:
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
        # Its trouble stays: a faulty resource must not be allocated before the first beat.
        row.position, row.is_present = position, True
        row.model, row.kind = found.model, fold(found.model)
        row.memory_mib, row.pci = found.memory_mib, found.pci
    for model in dict.fromkeys(resource.model for resource in inventory.resources):
        aliases.note_model(session, model)
