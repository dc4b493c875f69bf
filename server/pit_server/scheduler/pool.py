"""All nodes during a pass, indexed by kind and free count."""

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import le

from pit_grammar import Placement
from pit_server.scheduler.capacity import FreeCapacity, NodeView, Share
from pit_server.scheduler.demand import Access, Demand, Shape
from pit_server.scheduler.kinds import ANY_GPU, CPU, MEMORY, SLOT
from pit_server.scheduler.node_state import NOBODY, Arrivals, Booking, NodeState

Level = dict[int, NodeState]  # the nodes with one free count, by id
MAX_FAILURES = 64  # that are remembered per combination of kinds
MOST_CHANGES, MOST_ARRIVALS = 10_000, 200  # more are forgotten
_AMOUNTS = (SLOT, CPU, MEMORY)


class Pool:
    def __init__(self, views: Iterable[NodeView], now: float = 0.0) -> None:
        self.now = now
        self.states: dict[int, NodeState] = {}
        self.networks: list[str] = []
        self.levels: dict[str, dict[int, Level]] = {}  # kind -> free count -> nodes
        self.totals: defaultdict[str, int] = defaultdict(int)  # what is free on all nodes together
        self.holders: defaultdict[str, dict[int, int]] = defaultdict(dict)  # kind -> jobs, their processes
        self._counts: dict[int, dict[str, int]] = {}  # as they are in the index, by node
        self._changes: list[int] = []  # nodes that have changed, in this order
        self._arrivals: dict[tuple[Placement | None, tuple[str, int]], Arrivals] = {}
        self._pinned: dict[Placement, list[NodeState]] = {}
        self._failures: dict[object, list[tuple[float, ...]]] = {}
        for view in views:
            self.add(view)

    def add(self, view: NodeView) -> None:
        state = self.states[view.id] = NodeState(view)
        if view.network not in self.networks:
            insort(self.networks, view.network)
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
                self.holders[kind][job] = self.holders[kind].get(job, 0) + 1

    def reserve(self, job: int, shares: Iterable[tuple[int, Share]], start: float, end: float) -> None:
        """Keep these shares for the job; those on one node together."""
        there: defaultdict[int, list[Share]] = defaultdict(list)
        for node_id, share in shares:
            there[node_id].append(share)
        for node_id, mine in there.items():
            cpu_milli = sum(share.cpu_milli or 0 for share in mine)
            memory_mib = sum(share.memory_mib or 0 for share in mine)
            units = tuple(unit for share in mine for unit in share.units)
            booking = Booking(start, end, job, len(mine), cpu_milli, memory_mib, units)
            self.states[node_id].booked.append(booking)

    def cancel(self, job: int, nodes: Iterable[int]) -> None:
        """Drop the job's reservation on these nodes."""
        for node_id in nodes:
            if node_id in self.states:
                self.states[node_id].cancel(job)

    def replace(self, view: NodeView) -> None:
        """The node has changed; what is reserved there stays."""
        state = self.states[view.id]
        before = state.view
        self._count_holders(state, -1)
        state.renew(view)
        self._file(state)
        self._count_holders(state, 1)
        if view.network not in self.networks:
            insort(self.networks, view.network)
        if (before.name, before.labels) != (view.name, view.labels):
            self._pinned.clear()
            self._arrivals.clear()

    def forget_failures(self) -> None:
        """Some node may offer more than it did."""
        self._failures.clear()

    def begin(self, now: float) -> None:
        """Forget all reservations, at the beginning of a pass through the whole queue."""
        self.now = now
        self.forget_failures()
        if len(self._changes) > MOST_CHANGES or len(self._arrivals) > MOST_ARRIVALS:
            for known in (self._changes, self._arrivals, self._pinned):
                known.clear()
        for state in self.states.values():
            if state.booked:
                state.booked = [booking for booking in state.booked if booking.job == NOBODY]

    def has_room(self, shape: Shape) -> bool:
        """Whether all nodes together have enough free; False is certain, True is not."""
        return all(self.totals[kind] >= amount for kind, amount in shape.totals)

    def arrivals(self, demand: Demand) -> Sequence[tuple[float, int]]:
        """Times at which nodes may be able to run one process of the demand, and these nodes' ids."""
        key, seen = (demand.placement, demand.key), len(self._changes)
        known = self._arrivals.get(key)
        if known is None or seen - known.seen > len(self.states):
            known = self._arrivals[key] = Arrivals(*demand.key, self.allowed(demand.placement), seen)
        elif known.seen < seen:
            known.renew(self.states[node_id] for node_id in set(self._changes[known.seen :]))
            known.seen = seen
        return known.line

    def is_hopeless(self, demand: Demand, access: Access, duration_s: float) -> bool:
        """Whether a process that needs no more, and for no longer, was tried in vain in this pass."""
        failures = self._failures.get((demand.kinds, demand.placement, id(access)))
        if not failures:
            return False
        size = (duration_s, *demand.amounts)
        return any(all(map(le, failed, size)) for failed in failures)

    def note_failure(self, demand: Demand, access: Access, duration_s: float) -> None:
        """No node can run one process of the demand for this long: what is free only shrinks in a pass."""
        failures = self._failures.setdefault((demand.kinds, demand.placement, id(access)), [])
        size = (duration_s, *demand.amounts)
        failures[:] = [each for each in failures if not all(map(le, size, each))]
        if len(failures) < MAX_FAILURES:
            failures.append(size)

    def horizon(self) -> float:
        """When all that runs and all that is reserved has ended."""
        return max((state.last_change() for state in self.states.values()), default=self.now)

    def _file(self, state: NodeState) -> None:
        """Bring the index up to date with what is free on the node."""
        self._changes.append(state.view.id)
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
                count = jobs.get(held.job, 0) + sign
                if count:
                    jobs[held.job] = count
                else:
                    del jobs[held.job]
