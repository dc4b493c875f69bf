"""When a job that does not fit now can start, by the time limits of what runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from pit_server.scheduler.demand import Demand, Shape
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.placement import Later, ProcessPlacement, place
from pit_server.scheduler.pool import Pool

MOST_TRIES = 32  # of times at which a gang might fit, before it gets the time when all else has ended


@dataclass(frozen=True, slots=True)
class Reservation:
    """When and where a waiting job starts at the latest, if all others end by their time limits."""

    start: float
    end: float
    processes: tuple[ProcessPlacement, ...]

    @property
    def nodes(self) -> set[int]:
        return {process.node_id for process in self.processes}


def find_earliest(shape: Shape, pool: Pool, after: float = 0.0) -> Reservation | None:
    """The earliest start that delays no reservation made before; None if the nodes could never run it."""
    first, *others = shape.demands
    after = max(after, pool.now)
    for demand in others:
        found = next(_candidates(demand, shape, pool, after), None)
        if found is None:
            return None
        after = max(after, found[0])
    for tries, (start, states) in enumerate(_candidates(first, shape, pool, after)):
        if tries == MOST_TRIES:
            break
        offers = Later(pool, shape, start, None if others else states)
        placed = place(shape, offers, pool.networks, grows=False)
        if placed is not None:
            return Reservation(start, start + shape.duration_s, placed)
    start = max(after, pool.horizon())
    placed = place(shape, Later(pool, shape, start, None), pool.networks, grows=False)
    return Reservation(start, start + shape.duration_s, placed) if placed is not None else None


def _candidates(
    demand: Demand, shape: Shape, pool: Pool, after: float
) -> Iterator[tuple[float, list[NodeState]]]:
    """Times from `after` on at which there may be room for all processes of the group, and where.

    Nodes are looked at in the order in which they may get room for one process, so that the nodes
    that cannot matter are not looked at.
    """
    arrivals, position = pool.arrivals(demand), 0
    again: list[tuple[float, int]] = []  # when nodes that were seen may have more room
    counts: dict[int, int] = {}
    total = 0
    while position < len(arrivals) or again:
        if position < len(arrivals) and (not again or arrivals[position] <= again[0]):
            at, node_id = arrivals[position]
            position += 1
        else:
            at, node_id = heappop(again)
        if node_id in shape.access.closed_nodes:
            continue
        at = max(at, after)
        state = pool.states[node_id]
        count = state.offer(at, at + shape.duration_s, pool.now).count(demand, shape.access)
        total += count - counts.get(node_id, 0)
        counts[node_id] = count
        change = state.next_change(at)
        if change is not None:
            heappush(again, (change, node_id))
        if total >= demand.low:
            yield at, [pool.states[each] for each, room in counts.items() if room]
