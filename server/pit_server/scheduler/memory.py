"""What one pass leaves to the next: the nodes as they will be, and what was tried in vain."""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.earliest import Reservation
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.order import Factors, Order, Usage, Waiting
from pit_server.scheduler.pool import Pool
from pit_server.scheduler.reason import Reason

NOT_REACHED = Reason("waits for the next pass of the scheduler")


class JobClass:
    """The waiting jobs of one shape."""

    __slots__ = ("after", "has_failed", "impossible", "line")

    def __init__(self) -> None:
        self.line: list[Factors] = []  # in the order of the queue
        self.has_failed = False  # the first does not fit now, so none does
        self.impossible: str | None = None  # why no node could ever run it; empty: some could; None: unknown
        self.after = 0.0  # when its latest reservation starts


class Memory:
    def __init__(self, queue: Mapping[int, Waiting], pool: Pool, order: Order) -> None:
        self.begun_at = pool.now  # the pass through the whole queue
        self.before_at = pool.now  # when the one before began
        self.pool = pool
        self.idle: Sequence[NodeView] = ()
        self.idle_pool = Pool(())
        self.jobs: dict[int, Waiting] = dict(queue)
        self.order = order
        self.position = 0  # in the order: all before have been considered
        self.classes: dict[Shape, JobClass] = {}
        # Classes that may fit since something changed, and the nodes that changed; None: wherever they fit.
        self.retry: dict[Shape, Sequence[NodeState] | None] = {}
        self.reservations: dict[int, Reservation] = {}
        self.reasons: dict[int, Reason] = {}
        self.is_invalid = False  # reservations no longer hold

    @classmethod
    def begin(
        cls,
        queue: Mapping[int, Waiting],
        nodes: Sequence[NodeView],
        idle: Sequence[NodeView],
        usage: Usage,
        now: float,
        before: "Memory | None",
    ) -> "Memory":
        """Begin a pass through the whole queue."""
        pool = before.pool if before and before.has_nodes(nodes) else Pool(nodes, now)
        pool.begin(now)
        memory = cls(queue, pool, Order(queue.values(), usage))
        for view in nodes:
            memory.replace(view)
        memory.is_invalid = False
        same_idle = before is not None and before.idle == idle
        memory.idle = before.idle if before and same_idle else idle
        memory.idle_pool = before.idle_pool if before and same_idle else Pool(idle, now)
        for factors in memory.order.sorted:
            shape = memory.jobs[factors.number].shape
            known = memory.classes.get(shape)
            if known is None:
                known = memory.classes[shape] = JobClass()
                if before and same_idle and shape in before.classes:
                    known.impossible = before.classes[shape].impossible
            known.line.append(factors)
        if before is not None:
            memory.before_at = before.begun_at
            memory.reasons = {number: r for number, r in before.reasons.items() if number in queue}
        return memory

    @property
    def is_complete(self) -> bool:
        return self.position >= len(self.order.sorted) and not self.retry and not self.is_invalid

    def is_outdated(
        self, nodes: Sequence[NodeView], idle: Sequence[NodeView], now: float, most_s: float
    ) -> bool:
        """Whether the next pass must go through the whole queue."""
        # `idle` has states and troubles too: a node that is gone changes the reasons of all jobs.
        if self.is_invalid or self.idle != idle or not self.has_nodes(nodes):
            return True
        return self.is_complete and not 0 <= now - self.begun_at < most_s

    def has_nodes(self, nodes: Sequence[NodeView]) -> bool:
        """Whether it is about these nodes, and no others."""
        states = self.pool.states
        return len(nodes) == len(states) and all(view.id in states for view in nodes)

    def update(self, queue: Mapping[int, Waiting], nodes: Sequence[NodeView], now: float) -> None:
        """Take in what has changed since the last pass."""
        self.pool.now = now
        for number in [number for number in self.jobs if number not in queue]:
            self.forget(number)
        gained = [state for view in nodes if (state := self.replace(view))]
        for job in [job for number, job in queue.items() if self.jobs.get(number) != job]:
            self._add(job)
        if gained:
            self._retry_on(gained)

    def forget(self, number: int) -> None:
        """The job no longer waits."""
        job = self.jobs.pop(number, None)
        if job is None:
            return
        line = self.classes[job.shape].line
        position = bisect_left(line, self.order.factors[number])
        if position < len(line) and line[position].number == number:
            del line[position]
        if not line:
            del self.classes[job.shape]
            self.retry.pop(job.shape, None)
        self.reasons.pop(number, None)
        if reservation := self.reservations.pop(number, None):
            self.pool.cancel(number, reservation.nodes)
            states = [self.pool.states[node] for node in reservation.nodes if node in self.pool.states]
            self._retry_on(states)

    def list_unreached(self) -> dict[int, float]:
        """The jobs whose reasons are from the pass before, and when that began."""
        rest = self.order.sorted[self.position :]
        return {factors.number: self.before_at for factors in rest if factors.number in self.jobs}

    def could_use(self, shape: Shape, states: Sequence[NodeState], *, sees_bookings: bool) -> bool:
        """Whether a process of the shape fits on one of these nodes."""
        access = shape.access
        for demand in shape.demands:
            for state in states:
                if not state.free.count(demand, access) or state.view.id in access.closed_nodes:
                    continue
                if demand.placement and not demand.placement.allows(state.view.name, state.view.labels):
                    continue
                if not sees_bookings or self.pool.offer(state, shape.duration_s).count(demand, access):
                    return True
        return False

    def _retry_on(self, states: Sequence[NodeState]) -> None:
        """Try the classes again that these nodes may run now."""
        reserved = {self.jobs[number].shape for number in self.reservations if number in self.jobs}
        for shape in self.classes:
            # What is reserved for a job is no obstacle to it.
            if self.could_use(shape, states, sees_bookings=shape not in reserved):
                self.retry[shape] = None if shape in self.retry else states

    def _add(self, job: Waiting) -> None:
        self.forget(job.number)
        self.jobs[job.number] = job
        known = self.classes.setdefault(job.shape, JobClass())
        insort(known.line, self.order.add(job))
        self.reasons[job.number] = NOT_REACHED
        self.retry[job.shape] = None
        # Reservations of lower priority must not stand in its way.
        self.is_invalid |= any(self.jobs[each].priority < job.priority for each in self.reservations)

    def replace(self, view: NodeView) -> NodeState | None:
        """Take in a node; returns its state if it has more free than was expected."""
        state = self.pool.states[view.id]
        if not state.is_changed and (state.view is view or state.view == view):
            return None
        free = state.free
        self.pool.replace(view)
        new = self.pool.states[view.id]
        had = {kind: set(units) for kind, units in free.units.items()}
        have = {kind: set(units) for kind, units in new.free.units.items()}
        before = free.slots, free.cpu_milli, free.memory_mib
        after = new.free.slots, new.free.cpu_milli, new.free.memory_mib
        is_less = any(a < b for a, b in zip(after, before, strict=True))
        is_less = is_less or any(units - have.get(kind, set()) for kind, units in had.items())
        self.is_invalid |= is_less and bool(new.booked)
        is_more = any(a > b for a, b in zip(after, before, strict=True))
        is_more = is_more or any(units - had.get(kind, set()) for kind, units in have.items())
        return new if is_more else None
