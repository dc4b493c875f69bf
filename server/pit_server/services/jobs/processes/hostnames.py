"""The network of a job and the hostnames of its processes; both depend on the runtime of their nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from pit_protocol.messages.beat import HOST, PRIVATE, Runtime
from pit_server.db.models import Node
from pit_server.scheduler.placement import ProcessPlacement


@dataclass(frozen=True)
class Hostnames:
    network: str
    hosts: tuple[str, ...]  # one per process, by rank


def network_of(node: Node) -> str:
    """What a node must have in common with others to run processes of one job with them.

    Containers on several nodes need an overlay. With the network of their hosts they would reach services
    that listen on a node's loopback address, and a cloud's metadata service.
    """
    if node.runtime != Runtime.DOCKER:
        return HOST
    return f"overlay {node.overlay}" if node.overlay else f"node {node.name}"


def choose_hostnames(
    number: int, attempt: int, processes: Sequence[ProcessPlacement], nodes: dict[int, Node]
) -> Hostnames:
    """Containers on one node: a private network; on several: their overlay. Else the network of the hosts."""
    used = {process.node_id: nodes[process.node_id] for process in processes}
    first = next(iter(used.values()))
    across = PRIVATE if len(used) == 1 else first.overlay
    network = across if first.runtime == Runtime.DOCKER else HOST
    if network == HOST:
        addresses = {key: node.fixed_address or node.address for key, node in used.items()}
        return Hostnames(network, tuple(addresses[process.node_id] for process in processes))
    # An overlay is shared with other jobs, so the names must be unique on it.
    prefix = "" if network == PRIVATE else f"job{number}-{attempt}-"
    return Hostnames(network, tuple(f"{prefix}group{p.group}-process{p.index}" for p in processes))
