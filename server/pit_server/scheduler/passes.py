"""The work of one pass: try jobs in order, start what fits, reserve for the first that do not."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from pit_server.scheduler.demand import Shape
from pit_server.scheduler.earliest import Reservation, find_earliest
from pit_server.scheduler.explain import Explainer, add_troubles, refusal
from pit_server.scheduler.memory import NOT_REACHED, JobClass, Memory
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.placement import ProcessPlacement, start_now
from pit_server.scheduler.reason import Reason


@dataclass(frozen=True)
class JobPlacement:
    number: int
    processes: tuple[ProcessPlacement, ...]


class Pass:
    def __init__(self, memory: Memory, reservations: int, is_over: Callable[[], bool]) -> None:
        self._memory = memory
        self._most = reservations
        self._is_over = is_over
        self._tried: set[Shape] = set()  # classes with jobs that still wait
        self.placements: list[JobPlacement] = []

    def run(self) -> None:
        """Go on where the last pass ended; then try again what may fit since something changed."""
        memory, order = self._memory, self._memory.order.sorted
        while memory.position < len(order):
            number = order[memory.position].number
            memory.position += 1
            if number in memory.jobs:
                self._consider(memory.jobs[number])
            if self._is_over():
                return
        self._retry()

    def explain(self) -> dict[int, Reason]:
        """Why the waiting jobs wait; those that this pass did not reach keep their reasons."""
        memory = self._memory
        explainer = Explainer(memory.pool, memory.idle)
        for shape in self._tried:
            known = memory.classes.get(shape)
            if known is None:
                continue
            first, *others = known.line
            memory.reasons[first.number] = self._explain(shape, known, explainer)
            if others:
                behind = Reason("waits behind {jobs}, which needs the same", (first.number,))
                reason = memory.reasons[first.number] if known.impossible else behind
                memory.reasons.update((factors.number, reason) for factors in others)
        for number in memory.jobs.keys() - memory.reasons.keys():
            memory.reasons[number] = NOT_REACHED
        return dict(memory.reasons)

    def _retry(self) -> None:
        """Try the first jobs of the classes that may fit now, in the order of the queue."""
        memory = self._memory
        line = [(memory.classes[shape].line[0], shape) for shape in memory.retry]
        heapify(line)
        for shape in memory.retry:
            memory.classes[shape].has_failed = False
        while line:
            factors, shape = line[0]
            if self._is_in_vain(shape):
                memory.classes[shape].has_failed = True
            else:
                self._consider(memory.jobs[factors.number])
            known = memory.classes.get(shape)
            if known is None or known.has_failed:
                heappop(line)
                memory.retry.pop(shape, None)
            else:
                heapreplace(line, (known.line[0], shape))
            if self._is_over():
                return

    def _is_in_vain(self, shape: Shape) -> bool:
        """Whether nodes that changed have been used up, so that a single process fits nowhere."""
        states = self._memory.retry.get(shape)
        if states is None or shape.max_processes > 1:
            return False
        return not self._memory.could_use(shape, states, sees_bookings=False)

    def _consider(self, job: Waiting) -> None:
        """Start the job or reserve for it."""
        known = self._memory.classes[job.shape]
        if not known.has_failed and self._start(job):
            return
        known.has_failed = True
        self._tried.add(job.shape)
        reservations = self._memory.reservations
        if job.number not in reservations and len(reservations) < self._most:
            self._reserve(job, known)

    def _start(self, job: Waiting) -> bool:
        memory, number = self._memory, job.number
        reserved = memory.reservations.get(number)
        if reserved:
            memory.pool.cancel(number, reserved.nodes)
        placed = start_now(job.shape, memory.pool, seed=number)
        if placed is None:
            if reserved:
                self._book(number, reserved)
            return False
        until = memory.pool.now + job.shape.duration_s
        memory.pool.take(number, ((p.node_id, p.share) for p in placed), until)
        memory.forget(number)
        self.placements.append(JobPlacement(number, placed))
        return True

    def _reserve(self, job: Waiting, known: JobClass) -> None:
        if self._is_impossible(job.shape, known):
            return
        found = find_earliest(job.shape, self._memory.pool, known.after)
        if found is not None:
            known.after = found.start
            self._memory.reservations[job.number] = found
            self._book(job.number, found)

    def _book(self, number: int, found: Reservation) -> None:
        shares = ((process.node_id, process.share) for process in found.processes)
        self._memory.pool.reserve(number, shares, found.start, found.end)

    def _is_impossible(self, shape: Shape, known: JobClass) -> bool:
        """Whether the request has become impossible since it was accepted."""
        if known.impossible is None:
            known.impossible = refusal(shape, self._memory.idle_pool) if self._memory.idle else ""
        return bool(known.impossible)

    def _explain(self, shape: Shape, known: JobClass, explainer: Explainer) -> Reason:
        if self._is_impossible(shape, known):
            troubled = [view for view in self._memory.idle if view.trouble]
            return add_troubles(Reason(known.impossible or ""), shape, troubled)
        return explainer.explain(known.line[0].number, shape)
