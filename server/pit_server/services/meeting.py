"""By which names the processes of a job reach each other: it depends on what their nodes run them by."""

from collections.abc import Sequence
from dataclasses import dataclass

from pit_protocol.beat import HOST, PRIVATE, Runtime
from pit_server.db.models import Node
from pit_server.scheduler.fit import ProcessPlacement


@dataclass(frozen=True)
class Meeting:
    network: str
    hosts: tuple[str, ...]  # of each process, in order


def arrange(
    number: int, attempt: int, processes: Sequence[ProcessPlacement], nodes: dict[int, Node]
) -> Meeting:
    """On one node containers have a network of their own; across nodes a shared one, else the nodes'."""
    used = {process.node_id: nodes[process.node_id] for process in processes}
    overlays = {node.overlay for node in used.values()}
    if any(node.runtime != Runtime.DOCKER for node in used.values()):
        network = HOST
    elif len(used) == 1:
        network = PRIVATE
    else:
        network = overlays.pop() or HOST if len(overlays) == 1 else HOST
    if network == HOST:
        addresses = {key: node.fixed_address or node.address for key, node in used.items()}
        return Meeting(network, tuple(addresses[process.node_id] for process in processes))
    # On a network that other jobs are on, too, the names must be the job's own.
    prefix = "" if network == PRIVATE else f"job{number}-{attempt}-"
    return Meeting(network, tuple(f"{prefix}group{p.group}-process{p.index}" for p in processes))
