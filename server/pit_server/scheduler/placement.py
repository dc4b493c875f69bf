"""Place all processes of one job at once, or none of them."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple, Protocol

from pit_server.scheduler.capacity import FreeCapacity, Share
from pit_server.scheduler.demand import PACK, RANDOM, SEQUENTIAL, SPREAD, Demand, Shape
from pit_server.scheduler.kinds import ANY_GPU
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.pool import Pool

ENOUGH = 8  # equally suitable nodes are compared before one of them is chosen
Touched = Mapping[int, FreeCapacity]
Rank = tuple[int, int, int, int, str]  # of a node: the lowest is best


@dataclass(frozen=True, slots=True)
class ProcessPlacement:
    group: int
    index: int
    node_id: int
    share: Share


class Shortage(NamedTuple):
    """A process group for which there was no room, and how many of its processes were left."""

    demand: Demand
    missing: int


class Offers(Protocol):
    """What nodes offer for one period of time."""

    shortage: "Shortage | None"  # why there was no room, if that can be said for one process group alone

    def best(self, demand: Demand, wanted: int, touched: Touched) -> FreeCapacity | None:
        """The best node for the next of `wanted` processes that is not in `touched`."""

    def within(self, network: str) -> "Offers":
        """What the nodes of one network offer."""


def place(
    shape: Shape, offers: Offers, networks: Collection[str] = (), *, grows: bool = True
) -> tuple[ProcessPlacement, ...] | None:
    """Place the whole request; None if it does not fit.

    If there are several networks, all its processes get nodes of the one that takes most of them, on
    the fewest nodes.
    """
    if len(networks) < 2 or shape.max_processes == 1:
        return _place(shape, offers, grows)
    found = [placed for name in networks if (placed := _place(shape, offers.within(name), grows))]
    return max(found, key=lambda placed: (len(placed), -len({p.node_id for p in placed})), default=None)


def _place(shape: Shape, offers: Offers, grows: bool) -> tuple[ProcessPlacement, ...] | None:
    """Every group gets its minimum first. Only then do ranges grow, as far as capacity is free."""
    trial = _Trial(shape, offers)
    for position, demand in enumerate(shape.demands):
        missing = demand.low - trial.fill(demand, demand.low)
        if missing:
            offers.shortage = Shortage(demand, missing) if position == 0 else None
            return None
    if grows:
        for demand in shape.demands:
            trial.fill(demand, demand.high - demand.low)
        trial.grow()
    return trial.placements()


def start_now(
    shape: Shape, pool: Pool, offers: "Now", *, is_reserved: bool = False
) -> tuple[ProcessPlacement, ...] | None:
    """Place the request now, on what is free for as long as it takes.

    Where others were tried in vain, one that is reserved may fit.
    """
    if not pool.has_room(shape):
        return None
    for demand in () if is_reserved else shape.demands:
        if pool.is_hopeless(demand, shape.access, shape.duration_s):
            offers.shortage = Shortage(demand, demand.low)
            return None
    return place(shape, offers, pool.networks)


class _Trial:
    """Placements on copies of the offers; a copy is made when a node is first used."""

    def __init__(self, shape: Shape, offers: Offers) -> None:
        self._shape = shape
        self._offers = offers
        self._touched: dict[int, FreeCapacity] = {}
        self._placed: dict[int, list[ProcessPlacement]] = {demand.index: [] for demand in shape.demands}

    def fill(self, demand: Demand, wanted: int) -> int:
        """Place up to `wanted` processes; returns how many."""
        if self._shape.mode == SPREAD:
            left = self._use_new_nodes(demand, wanted, at_once=1)
            while left and (used := self._use_same_nodes(demand, left, at_once=1)):
                left -= used
        else:
            left = wanted - self._use_same_nodes(demand, wanted, at_once=wanted)
            left = self._use_new_nodes(demand, left, at_once=wanted)
        return wanted - left

    def grow(self) -> None:
        """Give elastic processes more units of their node, up to their maximum."""
        named, access = self._shape.named, self._shape.access
        for demand in self._shape.demands:
            if all(need.high == need.low for need in demand.needs):
                continue
            placed = self._placed[demand.index]
            for position, placement in enumerate(placed):
                node = self._touched[placement.node_id]
                more = [
                    unit
                    for need in demand.needs
                    for unit in node.take_units(need.kind, need.high - need.low, named, access)
                ]
                if more:
                    share = replace(placement.share, units=(*placement.share.units, *more))
                    placed[position] = replace(placement, share=share)

    def placements(self) -> tuple[ProcessPlacement, ...]:
        return tuple(p for index in sorted(self._placed) for p in self._placed[index])

    def _use_new_nodes(self, demand: Demand, left: int, at_once: int) -> int:
        while left:
            offer = self._offers.best(demand, left, self._touched)
            if offer is None:
                break
            node = self._touched[offer.view.id] = offer.copy()
            left -= self._take(demand, node, min(left, at_once))
        return left

    def _use_same_nodes(self, demand: Demand, wanted: int, at_once: int) -> int:
        used = 0
        for node in self._touched.values():
            if used < wanted and self._is_allowed(demand, node):
                used += self._take(demand, node, min(at_once, wanted - used))
        return used

    def _is_allowed(self, demand: Demand, node: FreeCapacity) -> bool:
        if node.view.id in self._shape.access.closed_nodes:
            return False
        return demand.placement is None or demand.placement.allows(node.view.name, node.view.labels)

    def _take(self, demand: Demand, node: FreeCapacity, most: int) -> int:
        access, named = self._shape.access, self._shape.named
        count = min(most, node.count(demand, access))
        placed = self._placed[demand.index]
        for _ in range(count):
            share = node.take(demand, named, access)
            placed.append(ProcessPlacement(demand.index, len(placed), node.view.id, share))
        return count


class Now:
    """What is free from now on for as long as the job takes, found by the index of the pool."""

    def __init__(
        self,
        pool: Pool,
        shape: Shape,
        seed: int = 0,
        *,
        sees_bookings: bool = True,
        network: str | None = None,
    ) -> None:
        self._pool = pool
        self._network = network
        self._shape = shape
        self._seed = seed
        self._sees_bookings = sees_bookings
        self.shortage: Shortage | None = None

    def within(self, network: str) -> "Now":
        bookings = self._sees_bookings
        return Now(self._pool, self._shape, self._seed, sees_bookings=bookings, network=network)

    def best(self, demand: Demand, wanted: int, touched: Touched) -> FreeCapacity | None:
        if demand.placement is not None or self._shape.mode != PACK:
            found = self._scan([self._pool.allowed(demand.placement)], demand, wanted, touched)
        elif demand.units:
            found = self._tightest(demand, wanted, touched) or self._largest(demand, wanted, touched)
        else:  # first where no GPUs would be blocked
            levels = self._pool.levels.get(ANY_GPU, {})
            nodes = (levels[level].values() for level in sorted(levels))
            found = self._scan(nodes, demand, wanted, touched, stops=True)
        if found is None and not touched and self._network is None:
            duration_s = self._shape.duration_s if self._sees_bookings else 0.0
            self._pool.note_failure(demand, self._shape.access, duration_s)
        return found

    def _tightest(self, demand: Demand, wanted: int, touched: Touched) -> FreeCapacity | None:
        """The node with the fewest units that has room for all wanted processes."""
        kind, low = demand.key
        levels = self._pool.levels.get(kind, {})
        nodes = (levels[level].values() for level in sorted(levels) if level >= low * wanted)
        found = self._scan(nodes, demand, wanted, touched, stops=True)
        return found if found and found.count(demand, self._shape.access) >= wanted else None

    def _largest(self, demand: Demand, wanted: int, touched: Touched) -> FreeCapacity | None:
        """The node with room for most of the wanted processes."""
        kind, low = demand.key
        best, most = None, 0
        levels = self._pool.levels.get(kind, {})
        for level in sorted(levels, reverse=True):
            if level < low or level // low <= most:
                break
            found = self._scan([levels[level].values()], demand, wanted, touched, most=level // low)
            if found and (count := found.count(demand, self._shape.access)) > most:
                best, most = found, count
        return best

    def _scan(
        self,
        nodes: Iterable[Iterable[NodeState]],
        demand: Demand,
        wanted: int,
        touched: Touched,
        *,
        stops: bool = False,
        most: int | None = None,
    ) -> FreeCapacity | None:
        """The best of some nodes; `stops`: after the first set of nodes in which one has room for all.

        `most`: no node has room for more processes than this.
        """
        pool, shape, seen = self._pool, self._shape, 0
        good = 0 if most is None else max(0, wanted - most)  # nothing ranks better
        enough = ENOUGH if most is None else 1
        best: tuple[Rank, FreeCapacity] | None = None
        for level in nodes:
            for state in level:
                node_id = state.view.id
                if node_id in touched or node_id in shape.access.closed_nodes:
                    continue
                if self._network is not None and state.view.network != self._network:
                    continue
                if not state.free.count(demand, shape.access):
                    continue
                offer = (
                    pool.offer(state, shape.duration_s)
                    if state.booked and self._sees_bookings
                    else state.free
                )
                count = offer.count(demand, shape.access)
                if not count:
                    continue
                rank = _rank(shape.mode, demand, offer, count, wanted, self._seed)
                if best is None or rank < best[0]:
                    best = rank, offer
                seen += 1
                if seen >= enough and shape.mode == PACK and best[0][0] == good:
                    return best[1]
            if stops and best and best[0][0] == 0:
                break
        return best[1] if best else None


class Later:
    """What is free in a period that begins later, on some nodes."""

    def __init__(
        self,
        pool: Pool,
        shape: Shape,
        start: float,
        states: Iterable[NodeState] | None,
        network: str | None = None,
    ) -> None:
        self._pool = pool
        self._network = network
        self._shape = shape
        self._start = start
        self._states = states
        self.shortage: Shortage | None = None
        self._sorted: dict[int, list[tuple[int, Rank, FreeCapacity]]] = {}  # by process group

    def best(self, demand: Demand, wanted: int, touched: Touched) -> FreeCapacity | None:
        if demand.index not in self._sorted:
            self._sorted[demand.index] = self._sort(demand)
        nodes = self._sorted[demand.index]
        while nodes:
            position = 0
            if self._shape.mode == PACK:
                # They are sorted by how many processes fit: the first with room for all, or for most.
                most = min(wanted, nodes[-1][0])
                position = bisect_left(nodes, most, key=itemgetter(0))
            offer = nodes.pop(position)[2]
            if offer.view.id not in touched:
                return offer
        return None

    def within(self, network: str) -> "Later":
        return Later(self._pool, self._shape, self._start, self._states, network)

    def _sort(self, demand: Demand) -> list[tuple[int, Rank, FreeCapacity]]:
        shape, end = self._shape, self._start + self._shape.duration_s
        allowed = self._pool.allowed(demand.placement) if self._states is None else self._states
        found: list[tuple[int, Rank, FreeCapacity]] = []
        for state in allowed:
            if state.view.id in shape.access.closed_nodes:
                continue
            if self._network is not None and state.view.network != self._network:
                continue
            offer = state.offer(self._start, end, self._pool.now)
            if count := offer.count(demand, shape.access):
                rank = _rank(shape.mode, demand, offer, count, count, 0)
                found.append((count if shape.mode == PACK else 0, rank, offer))
        return sorted(found, key=itemgetter(0, 1))


def _rank(mode: str, demand: Demand, offer: FreeCapacity, count: int, wanted: int, seed: int) -> Rank:
    """Packing prefers nodes with room for all wanted processes, then those with least left over."""
    view = offer.view
    if mode == SEQUENTIAL:
        return 0, 0, 0, 0, view.name
    if mode == RANDOM:
        return 0, hash((seed, view.id)), 0, 0, view.name
    left = offer.free(demand.key[0] if len(demand.needs) == 1 else ANY_GPU)
    if mode == SPREAD:
        return 0, -left, -offer.slots, 0, view.name
    cores = offer.cpu_milli if demand.cpu_milli else 0
    return max(0, wanted - count), left, cores, offer.slots, view.name
