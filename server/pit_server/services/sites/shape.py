"""What a job asks a site for: so many equal nodes, for so long. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from pit_grammar import Request
from pit_protocol.durations import render_duration
from pit_server.scheduler.kinds import ANY_GPU

MILLI = 1000


@dataclass(frozen=True)
class Shape:
    nodes: int
    cores: int  # this and the next two: of each node
    memory_mib: int | None
    gpus: tuple[tuple[str, int], ...]  # kind, as the request names it, and number
    time_s: float

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Shape":
        gpus = tuple((str(kind), int(count)) for kind, count in value["gpus"])
        return cls(value["nodes"], value["cores"], value["memory_mib"], gpus, value["time_s"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def serves(self, other: "Shape") -> bool:
        """Whether an allocation of this shape has the machines of another one."""
        mine, theirs = (self.nodes, self.gpus), (other.nodes, other.gpus)
        memory = (self.memory_mib or 0) >= (other.memory_mib or 0)
        return mine == theirs and self.cores >= other.cores and memory

    def __str__(self) -> str:
        """`2 × 4 a100 for 4h`."""
        gpus = " and ".join(f"{count} {kind}" for kind, count in self.gpus)
        each = gpus or (f"{self.cores} cores" if self.cores > 1 else "1 core")
        nodes = f"{self.nodes} × " if self.nodes > 1 else ""
        return f"{nodes}{each} for {render_duration(self.time_s)}"


def shape_of(request: Request, per_node: int, time_s: float) -> Shape:
    """The nodes for a request at its minimum, with up to `per_node` processes on each.

    All nodes of an allocation are alike, so each has what the largest of the request's groups needs.
    """
    groups = request.lowest().groups
    processes = sum(group.count.low for group in groups)
    on_each = min(per_node, processes)
    gpus: dict[str, int] = {}
    for group in groups:
        for need in group.gpus:
            gpus[need.kind] = max(gpus.get(need.kind, 0), need.low * on_each)
    memory = max((group.memory_mib or 0 for group in groups), default=0) * on_each
    cores = max(group.cpu_milli or MILLI for group in groups) * on_each
    return Shape(
        nodes=ceil(processes / on_each),
        cores=ceil(cores / MILLI),
        memory_mib=memory or None,
        gpus=tuple(sorted(gpus.items(), key=lambda gpu: (gpu[0] == ANY_GPU, gpu[0]))),
        time_s=time_s,
    )


def at_site(request: Request) -> Request:
    """The request as it is placed on pilots: the site has chosen the machines and the models of the GPUs."""
    kinds = dict.fromkeys(request.kinds, ANY_GPU)
    return without_place(request.lowest().renamed(kinds))


def without_place(request: Request) -> Request:
    """The same request without the places that it names."""
    return Request(tuple(replace(group, placement=None) for group in request.groups))


def names_of(request: Request) -> set[str]:
    """The nodes or sites that a request names, as in `[]@hpc`."""
    places = (group.placement for group in request.groups)
    return {place.name for place in places if place is not None and place.value is None}
