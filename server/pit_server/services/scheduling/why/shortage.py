"""What a waiting job needs and does not find free, and which jobs hold it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from pit_grammar.request import UNITS
from pit_protocol.answers.why import Missing, NodeFree
from pit_server.scheduler.capacity import FreeCapacity
from pit_server.scheduler.demand import Access, Demand, Shape
from pit_server.scheduler.kinds import AMOUNTS, CPU, MEMORY, SLOT
from pit_server.scheduler.pool import Pool

MAX_NODES = 3  # that are named


@dataclass
class Holding:
    """What one job holds of a missing kind."""

    job: int
    kind: str
    amount: float = 0.0
    nodes: list[str] = field(default_factory=list)
    until: float = 0.0  # of its last process; infinite: nobody knows


def find_missing(shape: Shape, nodes: Pool) -> list[Missing]:
    """What the groups of the request need and what is not free: together, or on any one node."""
    missing = []
    for demand in shape.demands:
        allowed = _allowed(demand, shape.access, nodes)
        for kind, each in _needs(demand):
            free = [(_free(node, kind, shape.access), node.view.name) for node in allowed]
            total, most = sum(count for count, _ in free), max((count for count, _ in free), default=0)
            if total < each * demand.low or most < each:
                missing.append(_missing(demand, kind, each, sorted(free, key=lambda one: (-one[0], one[1]))))
    return missing


def find_holders(shape: Shape, missing: Sequence[Missing], nodes: Pool) -> list[Holding]:
    """The jobs that hold what is missing, those that end first at the beginning."""
    kinds = {need.kind for need in missing}
    found: dict[tuple[int, str], Holding] = {}
    usable = {node.view.id for demand in shape.demands for node in _allowed(demand, shape.access, nodes)}
    for node_id in sorted(usable):
        for held in nodes.states[node_id].held:
            for kind in kinds:
                amount = held.share.amount(kind)
                if not amount:
                    continue
                holding = found.setdefault((held.job, kind), Holding(held.job, kind))
                holding.amount += amount / UNITS.get(kind, 1)
                holding.until = max(holding.until, held.until)
                name = nodes.states[node_id].view.name
                if name not in holding.nodes:
                    holding.nodes.append(name)
    return sorted(found.values(), key=lambda one: (one.until, one.job, one.kind))


def known_end(until: float) -> float | None:
    return None if until == inf else until


def free_kinds(access: Access, nodes: Pool) -> list[str]:
    """The kinds of GPUs of which the user could have some now, those with most at the beginning."""
    free: defaultdict[str, int] = defaultdict(int)
    for state in nodes.states.values():
        if state.view.id not in access.closed_nodes:
            for kind in state.free.units:
                free[kind] += state.free.free(kind, access)
    return sorted((kind for kind, count in free.items() if count), key=lambda kind: (-free[kind], kind))


def _needs(demand: Demand) -> Iterator[tuple[str, int]]:
    """The kinds that one process needs, and how much of each in units of the scheduler."""
    yield from ((need.kind, need.low) for need in demand.needs)
    for kind in (CPU, MEMORY, SLOT):
        if amount := demand.amount(kind):
            yield kind, amount


def _allowed(demand: Demand, access: Access, nodes: Pool) -> list[FreeCapacity]:
    """The nodes where the user may run a process of the group."""
    return [
        state.free for state in nodes.allowed(demand.placement) if state.view.id not in access.closed_nodes
    ]


def _free(node: FreeCapacity, kind: str, access: Access) -> int:
    return node.amount(kind) if kind in AMOUNTS else node.free(kind, access)


def _missing(demand: Demand, kind: str, each: int, free: Sequence[tuple[int, str]]) -> Missing:
    unit = UNITS.get(kind, 1)
    return Missing(
        kind=kind,
        wanted=each * demand.low / unit,
        each=each / unit,
        free=sum(max(0, count) for count, _ in free) / unit,
        where=str(demand.placement or ""),
        nodes=[NodeFree(name, count / unit) for count, name in free[:MAX_NODES] if count > 0],
    )
