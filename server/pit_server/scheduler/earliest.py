"""When a job that does not fit now can start, by the time limits of what runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from pit_server.scheduler.demand import Demand, Shape
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.placement import Later, ProcessPlacement, place
from pit_server.scheduler.pool import Pool

MOST_TRIES = 32  # of times at which a gang might fit, before it gets the time when all else has ended
LOOKS = 256  # at nodes, between two times that a search yields


@dataclass(frozen=True, slots=True)
class Reservation:
    """When and where a waiting job starts at the latest, if all others end by their time limits."""

    start: float
    end: float
    processes: tuple[ProcessPlacement, ...]

    @property
    def nodes(self) -> set[int]:
        return {process.node_id for process in self.processes}


def find_earliest(shape: Shape, pool: Pool, after: float = 0.0) -> Iterator[float | Reservation]:
    """Search for the earliest start that delays no reservation made before.

    Yields times before which there is none, and the reservation in the end; nothing if the nodes could
    never run it. A search may be given up, and begun again after the latest of these times.
    """
    first, *others = shape.demands
    after = max(after, pool.now)
    for demand in others:
        for at, states in _candidates(demand, shape, pool, after):
            if at > after:
                after = at
                yield after
            if states:
                break
        else:
            return
    tries = 0
    for start, states in _candidates(first, shape, pool, after):
        if start > after:
            yield start
        if not states:
            continue
        offers = Later(pool, shape, start, None if others else states)
        placed = place(shape, offers, pool.networks, grows=False)
        if placed is not None:
            yield Reservation(start, start + shape.duration_s, placed)
            return
        tries += 1
        if tries == MOST_TRIES:
            break
    start = max(after, pool.horizon())
    placed = place(shape, Later(pool, shape, start, None), pool.networks, grows=False)
    if placed is not None:
        yield Reservation(start, start + shape.duration_s, placed)


def _candidates(
    demand: Demand, shape: Shape, pool: Pool, after: float
) -> Iterator[tuple[float, list[NodeState]]]:
    """Times from `after` on at which there may be room for all processes of the group, and where.

    Nodes are looked at in the order in which they may get room for one process, so that the nodes
    that cannot matter are not looked at. A time comes as soon as the room may be enough, and again if
    more nodes get room at the same time. Now and then, one comes without nodes: it is not before then.
    """
    queue = _Changes(demand, pool)
    counts: dict[int, int] = {}
    total = looks = 0
    latest, shown = after, 0  # the time of the last candidate, and of how many looks it was the result
    while queue:
        at, node_id = queue.pop()
        if node_id in shape.access.closed_nodes:
            continue
        at = max(at, after)
        if at > latest and total >= demand.low and looks > shown:
            shown = looks
            yield latest, _with_room(counts, pool)
        state = pool.states[node_id]
        count = state.offer(at, at + shape.duration_s, pool.now).count(demand, shape.access)
        total += count - counts.get(node_id, 0)
        counts[node_id] = count
        queue.push(state, at)
        looks += 1
        if total >= demand.low and (at > latest or not shown):
            shown = looks
            yield at, _with_room(counts, pool)
        elif looks % LOOKS == 0 and at > after:
            yield at, []
        latest = at
    if total >= demand.low and looks > shown:
        yield latest, _with_room(counts, pool)


def _with_room(counts: dict[int, int], pool: Pool) -> list[NodeState]:
    return [pool.states[node_id] for node_id, room in counts.items() if room]


class _Changes:
    """The nodes in the order in which they may get room: for one process, then for more."""

    def __init__(self, demand: Demand, pool: Pool) -> None:
        self._arrivals, self._position = pool.arrivals(demand), 0
        self._again: list[tuple[float, int]] = []  # when nodes that were seen may have more room

    def __bool__(self) -> bool:
        return bool(self._again) or self._position < len(self._arrivals)

    def pop(self) -> tuple[float, int]:
        is_new = self._position < len(self._arrivals)
        if is_new and not (self._again and self._again[0] < self._arrivals[self._position]):
            self._position += 1
            return self._arrivals[self._position - 1]
        return heappop(self._again)

    def push(self, state: NodeState, at: float) -> None:
        change = state.next_change(at)
        if change is not None:
            heappush(self._again, (change, state.view.id))
