"""Virtual time: jobs arrive and end, and at each such moment the policy decides what starts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from pit_grammar import parse
from pit_server.scheduler.capacity import Held, NodeView, Share
from pit_server.scheduler.demand import EVERYTHING, Shape
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.passes import JobPlacement
from pit_server.services.scheduling.fair_share import Weights
from pit_server.settings import Settings
from pit_server.simulator.policies import Policy
from pit_server.simulator.shares import Shares
from pit_server.simulator.trace import Trace, TraceJob


@dataclass(frozen=True, slots=True)
class Ran:
    """When a job of the trace ran."""

    job: TraceJob
    started: float

    @property
    def wait_s(self) -> float:
        return self.started - self.job.submitted

    @property
    def ended(self) -> float:
        return self.started + self.job.run_s


class Simulation:
    def __init__(self, trace: Trace, policy: Policy, settings: Settings) -> None:
        self._jobs = dict(enumerate(trace.jobs, 1))
        self._policy = policy
        self._weights = Weights(settings)
        self._shares = Shares(settings)
        self._mode = settings.placement
        self._views = {view.id: view for view in trace.nodes}
        self._shapes: dict[tuple[str, float], Shape] = {}
        self._queue: dict[int, Waiting] = {}
        self._ends: list[tuple[float, int]] = []  # a heap of running jobs
        self._running: dict[int, JobPlacement] = {}
        self.ran: dict[int, Ran] = {}

    def run(self) -> list[Ran]:
        """Run all jobs of the trace to their end."""
        arrivals = list(self._jobs)[::-1]
        while arrivals or self._ends:
            times = [self._jobs[arrivals[-1]].submitted] if arrivals else []
            now = min((*times, *(end for end, _ in self._ends[:1])))
            while self._ends and self._ends[0][0] <= now:
                self._end(heappop(self._ends)[1], now)
            while arrivals and self._jobs[arrivals[-1]].submitted <= now:
                number = arrivals.pop()
                self._queue[number] = self._waiting(number)
            self._decide(now)
        return list(self.ran.values())

    def _decide(self, now: float) -> None:
        while self._queue:
            usage = self._shares.usage(now)
            placed = self._policy.decide(self._queue, list(self._views.values()), usage, now)
            if not placed:
                return
            for placement in placed:
                self._start(placement, now)

    def _start(self, placement: JobPlacement, now: float) -> None:
        number = placement.number
        job, waiting = self._jobs[number], self._queue.pop(number)
        self.ran[number] = Ran(job, now)
        self._running[number] = placement
        heappush(self._ends, (now + job.run_s, number))
        self._shares.start(number, job.user, job.group, waiting.cost / waiting.shape.duration_s, now)
        for process in placement.processes:
            held = Held(number, now + waiting.shape.duration_s, process.share)
            view = self._views[process.node_id]
            self._views[process.node_id] = replace(_without(view, process.share), held=(*view.held, held))

    def _end(self, number: int, now: float) -> None:
        self._shares.end(number, now)
        for process in self._running.pop(number).processes:
            view = self._views[process.node_id]
            left = tuple(held for held in view.held if held.job != number)
            self._views[process.node_id] = replace(_with(view, process.share), held=left)

    def _waiting(self, number: int) -> Waiting:
        job = self._jobs[number]
        key = job.request, job.limit_s
        shape = self._shapes.get(key)
        if shape is None:
            request = parse(job.request)
            shape = self._shapes[key] = Shape(request, EVERYTHING, job.limit_s, self._mode)
        cost = self._weights.of_request(shape.request) * job.limit_s
        return Waiting(number, shape, job.user, job.group, job.priority, cost)


def simulate(trace: Trace, policy: Policy, settings: Settings) -> Sequence[Ran]:
    return Simulation(trace, policy, settings).run()


def _without(view: NodeView, share: Share) -> NodeView:
    """The node without what a process takes."""
    gone = set(share.units)
    units = {kind: tuple(u for u in units if (kind, u) not in gone) for kind, units in view.units.items()}
    return _changed(view, share, units, -1)


def _with(view: NodeView, share: Share) -> NodeView:
    """The node with what a process gives back."""
    units = dict(view.units)
    for kind, unit in share.units:
        units[kind] = (*units[kind], unit)
    return _changed(view, share, units, 1)


def _changed(view: NodeView, share: Share, units: dict[str, tuple[str, ...]], sign: int) -> NodeView:
    return replace(
        view,
        slots=view.slots + sign,
        cpu_milli=view.cpu_milli + sign * (share.cpu_milli or 0),
        memory_mib=view.memory_mib + sign * (share.memory_mib or 0),
        units=units,
    )
