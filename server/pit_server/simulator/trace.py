"""A trace as values: nodes, and jobs with their time of arrival and run time."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from math import inf

from pit_grammar import parse
from pit_protocol.problem import Problem
from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.explain import refusal
from pit_server.scheduler.pool import Pool
from pit_server.services.scheduling.run_times import round_up

USERS = 20  # to whom jobs without a user are given
SLOTS = 100_000  # processes that a node runs: none of the traces has such a limit


@dataclass(frozen=True, slots=True)
class TraceJob:
    submitted: float
    run_s: float
    request: str
    user: str = ""
    group: str = ""
    priority: int = 0
    limit_s: float = 0.0  # that it is planned with; 0: its run time, rounded up


@dataclass(frozen=True)
class Trace:
    nodes: tuple[NodeView, ...]
    jobs: tuple[TraceJob, ...]  # in order of arrival

    @property
    def window_s(self) -> float:
        """From the first arrival to the last."""
        return self.jobs[-1].submitted - self.jobs[0].submitted

    @property
    def resource(self) -> str:
        """By which load and utilisation are measured: GPUs if there are any, else cores."""
        return "gpu" if any(units for view in self.nodes for units in view.units.values()) else "cpu"

    @property
    def capacity(self) -> float:
        if self.resource == "gpu":
            return sum(len(units) for view in self.nodes for units in view.units.values())
        return sum(view.cpu_milli for view in self.nodes) / 1000

    @property
    def load(self) -> float:
        """The work that arrives, per what the nodes can do meanwhile."""
        work = sum(amount_of(job.request, self.resource) * job.run_s for job in self.jobs)
        return work / (self.capacity * self.window_s) if self.window_s and self.capacity else inf


@lru_cache(maxsize=100_000)
def amount_of(request: str, resource: str) -> float:
    """The GPUs or cores of a request at its minimum."""
    groups = parse(request).groups
    if resource == "gpu":
        return sum(need.low * group.count.low for group in groups for need in group.gpus)
    return sum((group.cpu_milli or 0) * group.count.low for group in groups) / 1000


def prepare(
    trace: Trace,
    *,
    load: float | None = None,
    every: int = 1,
    skip: int = 0,
    most_jobs: int | None = None,
    longest_s: float = inf,
    seed: int = 1,
) -> Trace:
    """Scale a trace: every n-th node, some of the jobs, run times cut, arrivals as close as the load says."""
    nodes = tuple(sorted(trace.nodes, key=lambda view: (sorted(view.units), view.id)))[::every]
    jobs = tuple(replace(job, run_s=min(job.run_s, longest_s)) for job in _possible(trace.jobs, nodes))
    jobs = jobs[skip:][:most_jobs]
    if not jobs:
        raise Problem("empty_trace", "no job of the trace can run on its nodes", "Keep more of the nodes.")
    scaled = Trace(nodes, tuple(_complete(jobs, seed)))
    if load is None:
        return scaled
    factor = scaled.load / load
    first = jobs[0].submitted
    moved = (replace(job, submitted=(job.submitted - first) * factor) for job in scaled.jobs)
    return Trace(nodes, tuple(moved))


def _possible(jobs: Sequence[TraceJob], nodes: Sequence[NodeView]) -> Iterator[TraceJob]:
    """The jobs that the nodes could run if nothing else ran."""
    idle, known = Pool(nodes), {}
    for job in jobs:
        if job.request not in known:
            known[job.request] = not refusal(Shape(parse(job.request)), idle)
        if known[job.request]:
            yield job


def _complete(jobs: Sequence[TraceJob], seed: int) -> Iterator[TraceJob]:
    """Give jobs without a user to some, the first of whom have most; and limits to those without one."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    weights = list(accumulate(1 / rank for rank in range(1, USERS + 1)))
    for job in jobs:
        user = job.user or f"user{draw.choices(range(USERS), cum_weights=weights)[0]}"
        limit_s = max(job.limit_s or round_up(job.run_s), job.run_s)
        yield replace(job, user=user, limit_s=limit_s)
