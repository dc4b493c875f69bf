"""Builders for tests of the scheduler."""

from collections import Counter
from collections.abc import Iterable

from pit_grammar import parse
from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.plan import JobPlacement, Plan, Waiting, plan


def a_view(
    name: str = "n0", *, slots: int = 8, cpu: int = 8, mem: int = 16, labels: str = "", **gpus: int
) -> NodeView:
    """A node; its id is the number in its name."""
    units = {kind: tuple(f"{kind}-{index}" for index in range(count)) for kind, count in gpus.items()}
    pairs = dict(pair.split("=") for pair in labels.split() if pair)
    return NodeView(int(name[1:]), name, slots, cpu * 1000, mem * 1024, units, pairs)


def planned(requests: Iterable[str], *views: NodeView) -> Plan:
    """The plan for a queue of requests; their numbers are 1, 2, 3…"""
    return plan([Waiting(number, parse(text)) for number, text in enumerate(requests, 1)], views)


def numbers(made: Plan) -> list[int]:
    return [job.number for job in made.placements]


def nodes_of(job: JobPlacement) -> Counter[int]:
    return Counter(process.node_id for process in job.processes)


def units_of(job: JobPlacement) -> list[list[str]]:
    return [[unit for _, unit in process.share.units] for process in job.processes]
