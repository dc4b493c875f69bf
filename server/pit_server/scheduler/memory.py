"""What one pass leaves to the next: the nodes as they will be, and what was tried in vain."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from pit_server.scheduler.capacity import FreeCapacity, NodeView
from pit_server.scheduler.demand import HOUR_S, Shape
from pit_server.scheduler.earliest import Reservation
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.order import Factors, Order, Usage, Waiting
from pit_server.scheduler.placement import Shortage
from pit_server.scheduler.pool import Pool
from pit_server.scheduler.reason import Reason

NOT_REACHED = Reason("waits for the next pass of the scheduler")
OVERTAKEN, OVERTAKEN_S = 2.0, 12 * HOUR_S  # how much later than first reserved a job may start, per its wait
CHUNK = 200  # nodes or jobs that are prepared in one step


class JobClass:
    """The waiting jobs of one shape that a pass has reached."""

    __slots__ = ("after", "behind", "count", "has_failed", "line", "room", "shortage")

    def __init__(self) -> None:
        self.line: list[Factors] = []  # a heap in the order of the queue; jobs that are gone stay in it
        self.count = 0  # of those that are not gone
        self.has_failed = False  # the first does not fit now, so none does
        self.shortage: Shortage | None = None  # why it did not fit, if that is known
        self.room = 0  # for processes of this group, on nodes that have changed since then
        self.after = 0.0  # when its latest reservation starts; or there is none before
        self.behind: Reason | None = None  # why all but the first wait


class Memory:
    def __init__(
        self,
        queue: Mapping[int, Waiting],
        nodes: Sequence[NodeView],
        idle: Sequence[NodeView],
        usage: Usage,
        now: float,
        before: "Memory | None",
    ) -> None:
        """Begin a pass through the whole queue."""
        self.begun_at = now
        self.before_at = before.begun_at if before else now
        self._node_ids = {view.id for view in nodes}
        self.pool: Pool = before.pool if before and before._node_ids == self._node_ids else Pool(())
        self.pool.now = now
        self.idle: Sequence[NodeView] = ()
        self.idle_pool = Pool(())
        self.impossible: dict[Shape, str] = {}  # why no node could ever run it; empty: some could
        self.jobs: dict[int, Waiting] = dict(queue)
        self.order = Order(usage)
        self.classes: dict[Shape, JobClass] = {}
        self._by_need: defaultdict[tuple[str, int], dict[Shape, None]] = defaultdict(dict)
        self.current: Waiting | None = None  # the job for which a reservation is being searched
        # Classes that may fit since something changed, and the nodes that changed; None: wherever they fit.
        self.retry: dict[Shape, Sequence[NodeState] | None] = {}
        self.reservations: dict[int, Reservation] = {}
        # When jobs have been overtaken for too long, since they got their first reservations.
        self.latest_starts: dict[int, float] = before.latest_starts if before else {}
        for number in self.latest_starts.keys() - queue.keys():
            del self.latest_starts[number]
        self.unreached: dict[int, None] = dict.fromkeys(queue)  # jobs
        self.unexplained: dict[Shape, None] = {}  # whose reasons are from an earlier pass
        self.reasons: dict[int, Reason] = before.reasons if before else {}
        for number in self.reasons.keys() - queue.keys():
            del self.reasons[number]
        self._old_factors = before.list_factors() if before else {}
        self._gained: dict[int, NodeState] = {}  # nodes that have more free, and for which nothing was tried
        self.is_invalid = False  # reservations no longer hold
        self.is_ready = False
        self.setup = self._prepare(queue, nodes, idle, before)

    def _prepare(
        self,
        queue: Mapping[int, Waiting],
        nodes: Sequence[NodeView],
        idle: Sequence[NodeView],
        before: "Memory | None",
    ) -> Iterator[None]:
        """Take in nodes and jobs, in small steps; `before` may have the nodes already."""
        is_known = bool(self.pool.states)
        if is_known:
            self.pool.begin(self.pool.now)
        for count, view in enumerate(nodes, 1):
            if not is_known:
                self.pool.add(view)
            elif self.is_changed(view):
                self.replace(view)
            if count % CHUNK == 0:
                yield
        self.is_invalid = False
        if before and before.is_ready and before.idle == idle:
            self.idle_pool = before.idle_pool
            self.impossible = {
                shape: why for shape, why in before.impossible.items() if shape in before.classes
            }
        else:
            for count, view in enumerate(idle, 1):
                self.idle_pool.add(view)
                if count % CHUNK == 0:
                    yield
        self.idle = idle
        overdue = self._find_overdue()
        for count, job in enumerate(queue.values(), 1):
            if job.number == overdue:
                self.order.put_first(job)
            else:
                self.order.add(job)
            if count % CHUNK == 0:
                yield
        self.is_ready = True

    def _find_overdue(self) -> int | None:
        """The job that was overtaken for longest, if it was for too long.

        Only one goes ahead at a time, so that those who have used much do not hold up the others.
        """
        late = [
            (-self.jobs[number].priority, latest, number)
            for number, latest in self.latest_starts.items()
            if latest < self.begun_at
        ]
        return min(late)[2] if late else None

    def promise(self, number: int, start: float) -> None:
        """The job has its first reservation: from when on it has been overtaken for too long."""
        wait_s = start - self.pool.now
        self.latest_starts.setdefault(number, start + max(OVERTAKEN * wait_s, OVERTAKEN_S))

    @property
    def is_walked(self) -> bool:
        """Whether all jobs have been considered."""
        return self.is_ready and not self.order and self.current is None

    @property
    def is_complete(self) -> bool:
        return self.is_walked and not (self.retry or self.unexplained or self.is_invalid)

    def is_outdated(
        self, nodes: Sequence[NodeView], idle: Sequence[NodeView], now: float, most_s: float
    ) -> bool:
        """Whether the next pass must begin with the whole queue again.

        Not before this one has come to its end, or the last jobs would never have their turn.
        """
        if len(nodes) != len(self._node_ids) or any(view.id not in self._node_ids for view in nodes):
            return True
        if not self.is_walked:
            return False
        # `idle` has states and troubles too: a node that is gone changes the reasons of all jobs.
        return self.is_invalid or self.idle != idle or not 0 <= now - self.begun_at < most_s

    def update(self, queue: Mapping[int, Waiting], nodes: Sequence[NodeView], now: float) -> Iterator[None]:
        """Take in what has changed since the last pass, in small steps.

        If a pass ends in between, the next one finds the other changes.
        """
        self.pool.now = now
        for number in sorted(self.jobs.keys() - queue.keys()):
            self.forget(number)
        changed = (view for view in nodes if self.is_changed(view))
        for count, view in enumerate(changed, 1):
            if self.replace(view):
                self._gained[view.id] = self.pool.states[view.id]
            if count % CHUNK == 0:
                yield
        if self._gained:
            self.pool.forget_failures()
            self._retry_on(list(self._gained.values()))
            self._gained.clear()
        known = self.jobs
        lowest = min((known[number].priority for number in self.reservations), default=None)
        for job in [job for number, job in queue.items() if known.get(number) != job]:
            self.forget(job.number)
            self.jobs[job.number] = job
            self.unreached[job.number] = None
            self.order.add(job)
            # Reservations of lower priority must not stand in its way.
            self.is_invalid |= lowest is not None and lowest < job.priority

    def file(self, job: Waiting) -> JobClass:
        """A pass has reached the job: put it into its class."""
        del self.unreached[job.number]
        self._old_factors.pop(job.number, None)
        known = self.classes.get(job.shape)
        if known is None:
            known = self.classes[job.shape] = JobClass()
            for demand in job.shape.demands:
                self._by_need[demand.key][job.shape] = None
        heappush(known.line, self.order.factors[job.number])
        known.count += 1
        return known

    def first(self, shape: Shape) -> Factors:
        """The first job of a class in the order of the queue."""
        line = self.classes[shape].line
        while not self._is_in_line(line[0], shape):
            heappop(line)
        return line[0]

    def list_others(self, shape: Shape) -> list[int]:
        """All jobs of the class but the first."""
        first = self.first(shape)
        line = self.classes[shape].line
        return [each.number for each in line if each is not first and self._is_in_line(each, shape)]

    def _is_in_line(self, factors: Factors, shape: Shape) -> bool:
        job = self.jobs.get(factors.number)
        return job is not None and job.shape is shape and self.order.factors[job.number] is factors

    def forget(self, number: int) -> None:
        """The job no longer waits."""
        job = self.jobs.pop(number, None)
        if job is None:
            return
        self.reasons.pop(number, None)
        self.latest_starts.pop(number, None)
        if self.current is job:
            self.current = None
        if number in self.unreached:
            del self.unreached[number]
            return
        known = self.classes[job.shape]
        known.count -= 1
        if not known.count:
            self._drop(job.shape)
        if reservation := self.reservations.pop(number, None):
            self.pool.cancel(number, reservation.nodes)
            self.pool.forget_failures()
            self._retry_on([self.pool.states[node] for node in sorted(reservation.nodes)])

    def _drop(self, shape: Shape) -> None:
        del self.classes[shape]
        self.retry.pop(shape, None)
        self.unexplained.pop(shape, None)
        for demand in shape.demands:
            self._by_need[demand.key].pop(shape, None)

    def list_factors(self) -> dict[int, Factors]:
        """Why jobs have their places in the order, by what is known of each."""
        return {**self._old_factors, **self.order.factors}

    def list_reasons(self, queue: Mapping[int, Waiting], started: set[int]) -> dict[int, Reason]:
        """Why each job of the queue waits."""
        reasons = dict(self.reasons)
        for number in queue.keys() - reasons.keys() - started:
            reasons[number] = NOT_REACHED
        for number in reasons.keys() - queue.keys():
            del reasons[number]
        return reasons

    def list_outdated(self) -> dict[int, float]:
        """The jobs whose reasons are from the pass before, and when that began."""
        outdated = dict.fromkeys(self.unreached, self.before_at)
        for shape in self.unexplained:
            numbers = (self.first(shape).number, *self.list_others(shape))
            outdated |= dict.fromkeys(numbers, self.before_at)
        return outdated

    def room(
        self,
        shape: Shape,
        states: Sequence[NodeState],
        shortage: Shortage | None = None,
        *,
        sees_bookings: bool,
    ) -> int:
        """How many processes of the shape, or of the group that there was no room for, fit on these nodes."""
        access, total = shape.access, 0
        for demand in (shortage.demand,) if shortage else shape.demands:
            for state in states:
                count = state.free.count(demand, access)
                if not count or state.view.id in access.closed_nodes:
                    continue
                if demand.placement and not demand.placement.allows(state.view.name, state.view.labels):
                    continue
                if sees_bookings and state.booked:
                    count = self.pool.offer(state, shape.duration_s).count(demand, access)
                total += count
        return total

    def _retry_on(self, states: Sequence[NodeState]) -> None:
        """Try the classes again that may fit since these nodes have more room."""
        reserved = {self.jobs[number].shape for number in self.reservations}
        for (kind, amount), shapes in self._by_need.items():
            there = [state for state in states if state.free.amount(kind) >= amount]
            for shape in shapes if there else ():
                if not self.pool.has_room(shape):
                    continue
                known = self.classes[shape]
                # What is reserved for a job is no obstacle to it.
                room = self.room(shape, there, known.shortage, sees_bookings=shape not in reserved)
                known.room += room
                if room and (known.shortage is None or known.room >= known.shortage.missing):
                    self.retry[shape] = None if shape in self.retry else states

    def is_changed(self, view: NodeView) -> bool:
        """Whether the node is no longer as the last pass left it."""
        state = self.pool.states[view.id]
        return state.is_changed or (state.view is not view and state.view != view)

    def replace(self, view: NodeView) -> bool:
        """Take in a node that has changed; returns whether it has more free than was expected."""
        state = self.pool.states[view.id]
        before, windows = state.free, state.view.windows
        self.pool.replace(view)
        self.is_invalid |= bool(state.booked) and _has_more(before, state.free)
        return _has_more(state.free, before) or windows != view.windows


def _has_more(free: FreeCapacity, other: FreeCapacity) -> bool:
    """Whether some resource is free on the one and not on the other."""
    if free.slots > other.slots or free.cpu_milli > other.cpu_milli or free.memory_mib > other.memory_mib:
        return True
    if free.units == other.units:
        return False
    return any(set(units) - set(other.units.get(kind, ())) for kind, units in free.units.items())
