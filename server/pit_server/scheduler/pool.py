"""All nodes during a pass, indexed by kind and free count."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import le

from pit_grammar import Placement
from pit_server.scheduler.capacity import FreeCapacity, NodeView, Share
from pit_server.scheduler.demand import Access, Demand, Shape
from pit_server.scheduler.kinds import ANY_GPU, CPU, MEMORY, SLOT
from pit_server.scheduler.node_state import Booking, NodeState

Level = dict[int, NodeState]  # the nodes with one free count, by id
MAX_FAILURES = 64  # that are remembered per combination of kinds
_AMOUNTS = (SLOT, CPU, MEMORY)


class Pool:
    def __init__(self, views: Iterable[NodeView], now: float = 0.0) -> None:
        self.now = now
        self.states = {view.id: NodeState(view) for view in views}
        self.networks = sorted({state.view.network for state in self.states.values()})
        self.levels: dict[str, dict[int, Level]] = {}  # kind -> free count -> nodes
        self.totals: defaultdict[str, int] = defaultdict(int)  # what is free on all nodes together
        self.holders: defaultdict[str, Counter[int]] = defaultdict(
            Counter
        )  # kind -> jobs and their processes
        self._counts: dict[int, dict[str, int]] = {}  # as they are in the index, by node
        self._arrivals: dict[tuple[str, int], list[tuple[float, int]]] = {}
        self._pinned: dict[Placement, list[NodeState]] = {}
        self._failures: dict[object, list[tuple[float, ...]]] = {}
        for state in self.states.values():
            self._file(state)
            self._count_holders(state, 1)

    def allowed(self, placement: Placement | None) -> Collection[NodeState]:
        """The nodes where the placement allows a process."""
        if placement is None:
            return self.states.values()
        if placement not in self._pinned:
            self._pinned[placement] = [
                state
                for state in self.states.values()
                if placement.allows(state.view.name, state.view.labels)
            ]
        return self._pinned[placement]

    def offer(self, state: NodeState, duration_s: float) -> FreeCapacity:
        """What is free on the node from now on for this long."""
        return state.offer(self.now, self.now + duration_s, self.now)

    def take(self, job: int, shares: Iterable[tuple[int, Share]], until: float) -> None:
        """Processes of the job start now, on these nodes."""
        for node_id, share in shares:
            state = self.states[node_id]
            state.take(job, share, until)
            self._file(state)
            for kind in share.kinds:
                self.holders[kind][job] += 1

    def reserve(self, job: int, shares: Iterable[tuple[int, Share]], start: float, end: float) -> None:
        for node_id, share in shares:
            self.states[node_id].booked.append(Booking(start, end, job, share))

    def cancel(self, job: int, nodes: Iterable[int]) -> None:
        """Drop the job's reservation on these nodes."""
        for node_id in nodes:
            if node_id in self.states:
                self.states[node_id].cancel(job)
        self._failures.clear()

    def replace(self, view: NodeView) -> None:
        """The node has changed; what is reserved there stays."""
        booked = [each for each in self.states[view.id].booked if each.share is not None]
        self._count_holders(self.states[view.id], -1)
        state = self.states[view.id] = NodeState(view)
        state.booked += booked
        self._file(state)
        self._count_holders(state, 1)
        self._pinned.clear()
        self._failures.clear()
        self._arrivals.clear()

    def begin(self, now: float) -> None:
        """Forget all reservations, at the beginning of a pass through the whole queue."""
        self.now = now
        self._failures.clear()
        self._arrivals.clear()
        for state in self.states.values():
            if state.booked:
                state.booked = [booking for booking in state.booked if booking.share is None]

    def has_room(self, shape: Shape) -> bool:
        """Whether all nodes together have enough free; False is certain, True is not."""
        for demand in shape.demands:
            for kind in (*_AMOUNTS, *(need.kind for need in demand.needs)):
                if demand.amount(kind) * demand.low > self.totals[kind]:
                    return False
        return True

    def arrivals(self, demand: Demand) -> Sequence[tuple[float, int]]:
        """Times at which nodes may be able to run one process of the demand, and these nodes' ids."""
        if demand.placement is not None:
            return self._list_arrivals(self.allowed(demand.placement), *demand.key)
        if demand.key not in self._arrivals:
            self._arrivals[demand.key] = self._list_arrivals(self.states.values(), *demand.key)
        return self._arrivals[demand.key]

    def is_hopeless(self, demand: Demand, access: Access, duration_s: float) -> bool:
        """Whether a process that needs no more, and for no longer, was tried in vain in this pass."""
        failures = self._failures.get(_family(demand, access), ())
        size = _size(demand, duration_s)
        return any(all(map(le, failed, size)) for failed in failures)

    def note_failure(self, demand: Demand, access: Access, duration_s: float) -> None:
        """No node can run one process of the demand for this long: what is free only shrinks in a pass."""
        failures = self._failures.setdefault(_family(demand, access), [])
        size = _size(demand, duration_s)
        failures[:] = [each for each in failures if not all(map(le, size, each))]
        if len(failures) < MAX_FAILURES:
            failures.append(size)

    def horizon(self) -> float:
        """When all that runs and all that is reserved has ended."""
        return max((state.last_change() for state in self.states.values()), default=self.now)

    def _file(self, state: NodeState) -> None:
        """Bring the index up to date with what is free on the node."""
        free, old = state.free, self._counts.get(state.view.id, {})
        new = {kind: len(units) for kind, units in free.units.items()}
        new[ANY_GPU] = sum(new.values())
        for kind in (*(kind for kind in old if kind not in new and kind not in _AMOUNTS), *new):
            before, after = old.get(kind), new.get(kind, 0)
            self.totals[kind] += after - (before or 0)
            levels = self.levels.setdefault(kind, {})
            if before is not None:
                levels[before].pop(state.view.id, None)
            levels.setdefault(after, {})[state.view.id] = state
        for kind in _AMOUNTS:
            new[kind] = free.amount(kind)
            self.totals[kind] += new[kind] - old.get(kind, 0)
        self._counts[state.view.id] = {**dict.fromkeys(old, 0), **new}

    def _count_holders(self, state: NodeState, sign: int) -> None:
        for held in state.held:
            for kind in held.share.kinds:
                jobs = self.holders[kind]
                jobs[held.job] += sign
                if not jobs[held.job]:
                    del jobs[held.job]

    def _list_arrivals(self, states: Iterable[NodeState], kind: str, amount: int) -> list[tuple[float, int]]:
        found = ((state.free_from(kind, amount), state.view.id) for state in states)
        return sorted((at, node_id) for at, node_id in found if at is not None)


def _family(demand: Demand, access: Access) -> object:
    """Demands of one family can be compared by size."""
    return tuple(need.kind for need in demand.needs), demand.placement, id(access)


def _size(demand: Demand, duration_s: float) -> tuple[float, ...]:
    amounts = (demand.cpu_milli or 0, demand.memory_mib or 0, *(need.low for need in demand.needs))
    return (duration_s, *map(float, amounts))
