"""Builders for tests of the scheduler."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from pit_grammar import parse
from pit_server.scheduler.capacity import Held, NodeView, Share
from pit_server.scheduler.demand import EVERYTHING, HOUR_S, PACK, Access, Shape
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.plan import Given, Plan, plan


def a_view(
    name: str = "n0", *, slots: int = 8, cpu: int = 8, mem: int = 16, labels: str = "", **gpus: int
) -> NodeView:
    """A node; its id is the number in its name."""
    units = {kind: tuple(f"{kind}-{index}" for index in range(count)) for kind, count in gpus.items()}
    pairs = dict(pair.split("=") for pair in labels.split() if pair)
    return NodeView(int(name[1:]), name, slots, cpu * 1000, mem * 1024, units, pairs)


def running(view: NodeView, job: int, until: float, *, cpu: int = 0, mem: int = 0, **gpus: int) -> NodeView:
    """The node while a process of the job holds so much of what was free."""
    taken = tuple((kind, unit) for kind, count in gpus.items() for unit in view.units[kind][:count])
    left = {kind: units[gpus.get(kind, 0) :] for kind, units in view.units.items()}
    share = Share(cpu * 1000 or None, mem * 1024 or None, taken)
    return replace(
        view,
        slots=view.slots - 1,
        cpu_milli=view.cpu_milli - cpu * 1000,
        memory_mib=view.memory_mib - mem * 1024,
        units=left,
        held=(*view.held, Held(job, until, share)),
    )


@lru_cache(maxsize=4096)
def a_shape(text: str, access: Access = EVERYTHING, time: float = HOUR_S, mode: str = PACK) -> Shape:
    """The same object for equal ones, as the scheduler wants it."""
    return Shape(parse(text), access, time, mode)


def a_job(
    number: int, text: str, access: Access = EVERYTHING, *, time: float = HOUR_S, mode: str = PACK
) -> Waiting:
    return Waiting(number, a_shape(text, access, time, mode))


def given(jobs: Iterable[Waiting], *views: NodeView, idle: Iterable[NodeView] = (), now: float = 0) -> Given:
    return Given({job.number: job for job in jobs}, views, tuple(idle), now=now)


def planned(requests: Iterable[str], *views: NodeView) -> Plan:
    """The plan for a queue of requests; their numbers are 1, 2, 3…"""
    return plan(given([a_job(number, text) for number, text in enumerate(requests, 1)], *views))


def numbers(made: Plan) -> list[int]:
    return [job.number for job in made.placements]


def nodes_of(job: JobPlacement) -> Counter[int]:
    return Counter(process.node_id for process in job.processes)


def units_of(job: JobPlacement) -> list[list[str]]:
    return [[unit for _, unit in process.share.units] for process in job.processes]
