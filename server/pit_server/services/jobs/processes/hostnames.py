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


def choose_hostnames(
    number: int, attempt: int, processes: Sequence[ProcessPlacement], nodes: dict[int, Node]
) -> Hostnames:
    """On one node: a private network. Across nodes: their common overlay, or the network of the hosts."""
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
        return Hostnames(network, tuple(addresses[process.node_id] for process in processes))
    # An overlay is shared with other jobs, so the names must be unique on it.
    prefix = "" if network == PRIVATE else f"job{number}-{attempt}-"
    return Hostnames(network, tuple(f"{prefix}group{p.group}-process{p.index}" for p in processes))
