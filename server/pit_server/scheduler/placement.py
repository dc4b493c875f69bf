"""Place all processes of one job at once, or none of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pit_grammar import ProcessGroup, Request
from pit_server.scheduler.capacity import EVERYTHING, Access, FreeCapacity, Share
from pit_server.scheduler.kinds import ANY_GPU


@dataclass(frozen=True)
class ProcessPlacement:
    group: int
    index: int
    node_id: int
    share: Share


def fit(
    request: Request, free: dict[int, FreeCapacity], access: Access = EVERYTHING
) -> tuple[ProcessPlacement, ...] | None:
    """Place the whole request and subtract it from `free`; None, and nothing subtracted, if it does not fit.

    All its processes get nodes of one network: the one that takes most of them, on the fewest nodes.
    """
    trials = [trial for nodes in _networks(request, free) if (trial := _try(request, nodes, access))]
    if not trials:
        return None
    best = max(trials, key=lambda trial: (len(trial.placements()), -len(trial.touched)))
    free.update(best.touched)
    return best.placements()


def _networks(request: Request, free: dict[int, FreeCapacity]) -> list[Mapping[int, FreeCapacity]]:
    """The nodes by their network; all together for a request that cannot have more than one process."""
    if sum(group.count.high for group in request.groups) == 1:
        return [free]
    found: dict[str, dict[int, FreeCapacity]] = {}
    for node_id, node in free.items():
        found.setdefault(node.view.network, {})[node_id] = node
    return list(found.values())


def _try(request: Request, free: Mapping[int, FreeCapacity], access: Access) -> "_Trial | None":
    """Every group gets its minimum first. Only then do ranges grow, as far as capacity is free now."""
    trial = _Trial(free, request, access)
    # The hardest to place first: pinned groups, then those that need most.
    order = sorted(range(len(request.groups)), key=lambda i: _hardness(request.groups[i]), reverse=True)
    for index in order:
        minimum = request.groups[index].count.low
        for placed in range(minimum):
            if not trial.add(index, request.groups[index], minimum - placed):
                return None
    for index in order:
        group = request.groups[index]
        for _ in range(group.count.high - group.count.low):
            if not trial.add(index, group, 1):
                break
    trial.grow()
    return trial


def _hardness(group: ProcessGroup) -> tuple[int, bool, int, int, int]:
    pinned = 0 if group.placement is None else 1 if group.placement.value is not None else 2
    return (
        pinned,
        all(need.kind != ANY_GPU for need in group.gpus),
        sum(need.low for need in group.gpus),
        group.cpu_milli or 0,
        group.memory_mib or 0,
    )


class _Trial:
    """Placements on copies of the nodes' free capacity; a copy is made when a node is first used."""

    def __init__(self, free: Mapping[int, FreeCapacity], request: Request, access: Access) -> None:
        self._free = free
        self._access = access
        self._request = request
        self._named = {need.kind for group in request.groups for need in group.gpus if need.kind != ANY_GPU}
        self.touched: dict[int, FreeCapacity] = {}
        self._placed: dict[int, list[ProcessPlacement]] = {}

    def add(self, index: int, group: ProcessGroup, remaining: int) -> bool:
        """Place one process of the group; `remaining` counts it and those still to be placed."""
        node = self._choose(group, remaining)
        if node is None:
            return False
        placed = self._placed.setdefault(index, [])
        share = node.take(group, self._named, self._access)
        placed.append(ProcessPlacement(index, len(placed), node.view.id, share))
        return True

    def grow(self) -> None:
        """Give elastic processes more units of their node, up to their maximum."""
        for index, placed in self._placed.items():
            for position, placement in enumerate(placed):
                node = self.touched[placement.node_id]
                more = [
                    unit
                    for need in self._request.groups[index].gpus
                    for unit in node.take_units(need, need.high - need.low, self._named, self._access)
                ]
                if more:
                    share = replace(placement.share, units=(*placement.share.units, *more))
                    placed[position] = replace(placement, share=share)

    def placements(self) -> tuple[ProcessPlacement, ...]:
        return tuple(p for index in sorted(self._placed) for p in self._placed[index])

    def _choose(self, group: ProcessGroup, remaining: int) -> FreeCapacity | None:
        """Find the best node for one more process.

        Prefer a node that this job already uses, then the tightest one that holds all `remaining`
        processes, then the one that holds most of them. This keeps a job on as few nodes as possible.
        """
        access = self._access
        best: FreeCapacity | None = None
        best_rank: tuple[bool, int, int, int, str] | None = None
        for node_id, untouched in self._free.items():
            node = self.touched.get(node_id, untouched)
            count = min(node.count_fitting(group, access), remaining)
            if count == 0:
                continue
            leftovers = sum(node.free(need.kind, access) for need in group.gpus) or node.free(ANY_GPU, access)
            rank = (node_id not in self.touched, remaining - count, leftovers, node.slots, node.view.name)
            if best_rank is None or rank < best_rank:
                best, best_rank = node, rank
        if best is not None and best.view.id not in self.touched:
            best = self.touched[best.view.id] = best.copy()
        return best
