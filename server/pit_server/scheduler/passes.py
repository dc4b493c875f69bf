"""The work of one pass: try jobs in order, start what fits, reserve for the first that do not.

It is done in steps, each of which is small whatever the queue: a pass may end after any of them, and
the next one goes on there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.earliest import Reservation, find_earliest
from pit_server.scheduler.explain import Explainer, add_troubles, refusal
from pit_server.scheduler.memory import JobClass, Memory
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.order import Factors, Waiting
from pit_server.scheduler.placement import Now, ProcessPlacement, start_now
from pit_server.scheduler.reason import Reason


@dataclass(frozen=True)
class JobPlacement:
    number: int
    processes: tuple[ProcessPlacement, ...]


class Pass:
    def __init__(self, memory: Memory, reservations: int) -> None:
        self._memory = memory
        self._most = reservations
        self._retried: list[tuple[Factors, Shape]] = []  # a heap: classes that may fit, by their first jobs
        self._changed: dict[Shape, Sequence[NodeState] | None] = {}  # the same, and why
        self.placements: list[JobPlacement] = []

    def steps(self, queue: Mapping[int, Waiting], nodes: Sequence[NodeView], now: float) -> Iterator[None]:
        """Go on where the last pass ended, with what has changed since then."""
        for _ in self._memory.setup:
            yield
        yield from self._memory.update(queue, nodes, now)
        yield from self._decide()
        explainer = Explainer(self._memory.pool, self._memory.idle)
        while self._memory.unexplained:
            self._explain(next(iter(self._memory.unexplained)), explainer)
            yield

    def end(self) -> None:
        """Leave to the next pass what this one has not come to."""
        for _, shape in self._retried:
            self._memory.retry.setdefault(shape, self._changed[shape])

    def _decide(self) -> Iterator[None]:
        """Consider jobs in the order of the queue: new ones, and those that may fit since a change."""
        memory = self._memory
        if memory.current is not None:
            yield from self._reserve(memory.current)
        while True:
            if memory.retry:
                self._take_retries()
            if self._retried and self._is_retried_first():
                yield from self._retry()
            elif job := memory.order.pop():
                if memory.jobs.get(job.number) is job:
                    yield from self._consider(job, memory.file(job))
            else:
                return
            yield

    def _is_retried_first(self) -> bool:
        next_one = self._memory.order.peek()
        return next_one is None or self._retried[0][0] < next_one

    def _take_retries(self) -> None:
        memory = self._memory
        for shape, states in memory.retry.items():
            memory.classes[shape].has_failed = False
            if shape not in self._changed:
                heappush(self._retried, (memory.first(shape), shape))
                self._changed[shape] = states
            elif self._changed[shape] is not states:
                self._changed[shape] = None
        memory.retry.clear()

    def _retry(self) -> Iterator[None]:
        """Try the first job of a class again; if it starts, the next one."""
        memory = self._memory
        shape = heappop(self._retried)[1]
        states = self._changed.pop(shape)
        known = memory.classes.get(shape)
        if known is None:
            return
        if self._is_in_vain(shape, states):
            known.has_failed = True
            if known.behind != _behind(memory.first(shape).number):  # the one that was first has started
                memory.unexplained[shape] = None
            return
        yield from self._consider(memory.jobs[memory.first(shape).number], known)
        if shape in memory.classes and not known.has_failed:
            memory.retry[shape] = states

    def _is_in_vain(self, shape: Shape, states: Sequence[NodeState] | None) -> bool:
        """Whether nodes that changed have been used up, so that a single process fits nowhere."""
        if states is None or shape.max_processes > 1:
            return False
        return not self._memory.room(shape, states, sees_bookings=False)

    def _consider(self, job: Waiting, known: JobClass) -> Iterable[None]:
        """Start the job or reserve for it; returns the steps of that."""
        memory = self._memory
        if not known.has_failed and self._start(job, known):
            return ()
        known.has_failed = True
        if known.behind is None:
            known.behind = _behind(job.number)
        if memory.first(job.shape).number == job.number:
            memory.unexplained[job.shape] = None
        else:
            memory.reasons[job.number] = known.behind
        if job.number in memory.reservations or len(memory.reservations) >= self._most:
            return ()
        memory.current = job
        return self._reserve(job)

    def _start(self, job: Waiting, known: JobClass) -> bool:
        memory, number, shape = self._memory, job.number, job.shape
        reserved = memory.reservations.get(number)
        if reserved:
            memory.pool.cancel(number, reserved.nodes)
        offers = Now(memory.pool, shape, number)
        placed = start_now(shape, memory.pool, offers, is_reserved=reserved is not None)
        if placed is None:
            if reserved:
                self._book(number, reserved)
            known.shortage = offers.shortage
            known.room = 0
            return False
        until = memory.pool.now + shape.duration_s
        memory.pool.take(number, ((p.node_id, p.share) for p in placed), until)
        memory.forget(number)
        self.placements.append(JobPlacement(number, placed))
        return True

    def _reserve(self, job: Waiting) -> Iterator[None]:
        memory = self._memory
        known = memory.classes[job.shape]
        if not self._refusal(job.shape):
            for found in find_earliest(job.shape, memory.pool, known.after):
                if isinstance(found, Reservation):
                    known.after = found.start
                    memory.reservations[job.number] = found
                    memory.promise(job.number, found.start)
                    self._book(job.number, found)
                    break
                known.after = found
                yield
        memory.current = None

    def _book(self, number: int, found: Reservation) -> None:
        shares = ((process.node_id, process.share) for process in found.processes)
        self._memory.pool.reserve(number, shares, found.start, found.end)

    def _refusal(self, shape: Shape) -> str:
        """Why the request has become impossible since it was accepted; empty: it has not."""
        memory = self._memory
        if shape not in memory.impossible:
            memory.impossible[shape] = refusal(shape, memory.idle_pool) if memory.idle else ""
        return memory.impossible[shape]

    def _explain(self, shape: Shape, explainer: Explainer) -> None:
        """Say why the jobs of the class wait."""
        memory = self._memory
        known, first = memory.classes[shape], memory.first(shape).number
        if refused := self._refusal(shape):
            troubled = [view for view in memory.idle if view.trouble]
            reason = behind = add_troubles(Reason(refused), shape, troubled)
        else:
            reason = explainer.explain(first, shape)
            behind = _behind(first)
        memory.reasons[first] = reason
        if known.behind != behind:
            known.behind = behind
            memory.reasons.update(dict.fromkeys(memory.list_others(shape), behind))
        del memory.unexplained[shape]


def _behind(first: int) -> Reason:
    return Reason("waits behind {jobs}, which needs the same", (first,))
