"""What is free on the nodes that a caller may use, by kind of GPU."""

from collections.abc import Iterable

from msgspec import Struct

from pit_protocol.answers.nodes import Node, NodeResource
from pit_protocol.states import NodeState


class KindSupply(Struct):
    kind: str
    total: int = 0
    usable: int = 0  # by the caller, on nodes that take jobs
    free: int = 0
    trouble: int = 0
    memory_mib: int = 0


class Supply(Struct):
    kinds: list[KindSupply]
    cores: float
    free_cores: float
    memory_mib: float
    free_memory_mib: float
    open_nodes: int  # that take jobs

    @property
    def gpus(self) -> int:
        return sum(kind.usable for kind in self.kinds)

    @property
    def free_gpus(self) -> int:
        return sum(kind.free for kind in self.kinds)


def is_open(node: Node) -> bool:
    return node.state == NodeState.ONLINE and not node.trouble


def count(nodes: Iterable[Node]) -> Supply:
    """Sum up what the caller could get now."""
    kinds: dict[str, KindSupply] = {}
    found = [node for node in nodes if is_open(node)]
    for node in nodes:
        for resource in node.resources:
            kind = kinds.setdefault(resource.kind, KindSupply(resource.kind))
            kind.total += 1
            kind.trouble += bool(resource.trouble)
            kind.memory_mib = max(kind.memory_mib, resource.memory_mib)
            kind.usable += _is_usable(node, resource)
            kind.free += resource.free and _is_usable(node, resource)
    return Supply(
        kinds=sorted(kinds.values(), key=lambda kind: kind.kind),
        cores=sum(node.cores for node in found),
        free_cores=sum(node.free_cores for node in found),
        memory_mib=sum(node.memory_mib for node in found),
        free_memory_mib=sum(node.free_memory_mib for node in found),
        open_nodes=len(found),
    )


def _is_usable(node: Node, resource: NodeResource) -> bool:
    return is_open(node) and resource.usable and not resource.trouble
