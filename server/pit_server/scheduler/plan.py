"""One pass over the queue: what starts now, what is reserved, and why the others wait.

A pass goes through the whole queue, or, if little has changed since the last one, only through
the jobs that this concerns. It ends when its time is used up; the next one goes on there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.earliest import Reservation
from pit_server.scheduler.limits import Limits
from pit_server.scheduler.memory import Memory
from pit_server.scheduler.order import Factors, Usage, Waiting
from pit_server.scheduler.passes import JobPlacement, Pass
from pit_server.scheduler.reason import Reason

RESERVATIONS = 50
FULL_PASS_S = 30.0  # how old the order of the queue may become


@dataclass(frozen=True)
class Given:
    """Everything that a pass decides on."""

    queue: Mapping[int, Waiting]  # by number, in order of arrival
    nodes: Sequence[NodeView]  # that take new processes, with what is free on them
    idle: Sequence[NodeView] = ()  # all nodes, with what they would have if nothing ran
    usage: Usage = field(default_factory=Usage)
    now: float = 0.0
    reservations: int = RESERVATIONS  # that a pass makes at most
    limits: Limits = field(default_factory=Limits)  # of users and groups


@dataclass(frozen=True)
class Plan:
    placements: tuple[JobPlacement, ...] = ()
    reasons: Mapping[int, Reason] = field(default_factory=dict)  # why each of the others waits
    reservations: Mapping[int, Reservation] = field(default_factory=dict)
    factors: Mapping[int, Factors] = field(default_factory=dict)  # jobs are considered in their order
    as_of: Mapping[int, float] = field(default_factory=dict)  # of reasons that are from an earlier pass
    is_complete: bool = True  # False: the time was used up, or there is more to do
    memory: Memory | None = field(default=None, compare=False)  # for the next pass


def plan(given: Given, memory: Memory | None = None, is_over: Callable[[], bool] = lambda: False) -> Plan:
    """Decide what starts now.

    `memory` is from the plan before, which owns it no longer. The pass ends when `is_over` says so.
    """
    if memory is None or memory.is_outdated(given.nodes, given.idle, given.now, FULL_PASS_S):
        memory = Memory(given.queue, given.nodes, given.idle, given.usage, given.now, memory)
    work = Pass(memory, given.reservations)
    for _ in work.steps(given.queue, given.nodes, given.now):
        if is_over():
            break
    work.end()
    placements, over_limits = given.limits.admit(work.placements)
    started = {placement.number for placement in work.placements}
    return Plan(
        placements=placements,
        reasons=memory.list_reasons(given.queue, started) | over_limits,
        reservations=dict(memory.reservations),
        factors=memory.list_factors(),
        as_of=memory.list_outdated(),
        # Those over a limit take no part in the next pass, if this one has used it up.
        is_complete=memory.is_complete and not (over_limits and placements),
        memory=memory,
    )
