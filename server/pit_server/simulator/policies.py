"""Policies that decide what starts: ours, and two that every scheduler is compared with.

All three place processes with the same code, and know the same limits of run times.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.order import Usage, Waiting
from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.placement import Now, start_now
from pit_server.scheduler.plan import Given, Plan, plan
from pit_server.scheduler.pool import Pool

Queue = Mapping[int, Waiting]


class Policy(Protocol):
    def decide(
        self, queue: Queue, nodes: Sequence[NodeView], usage: Usage, now: float
    ) -> Sequence[JobPlacement]:
        """What starts now; it is asked again until it starts nothing more."""


class Pit:
    """The plan of the head, with memory from pass to pass."""

    def __init__(self, idle: Sequence[NodeView], reservations: int) -> None:
        self._idle = idle
        self._reservations = reservations
        self._latest = Plan()

    def decide(
        self, queue: Queue, nodes: Sequence[NodeView], usage: Usage, now: float
    ) -> Sequence[JobPlacement]:
        given = Given(queue, nodes, self._idle, usage, now, self._reservations)
        self._latest = plan(given, self._latest.memory)
        while not (self._latest.placements or self._latest.is_complete):
            self._latest = plan(given, self._latest.memory)
        return self._latest.placements

    def forget_promises(self) -> None:
        """No job goes first because it was overtaken."""
        if self._latest.memory:
            self._latest.memory.latest_starts.clear()


class Easy:
    """EASY backfill: in order of arrival, and only the first job that does not fit has a reservation."""

    def __init__(self, idle: Sequence[NodeView]) -> None:
        self._pit = Pit(idle, 1)

    def decide(
        self, queue: Queue, nodes: Sequence[NodeView], _usage: Usage, now: float
    ) -> Sequence[JobPlacement]:
        self._pit.forget_promises()
        arrived = {number: Waiting(number, job.shape) for number, job in queue.items()}
        return self._pit.decide(arrived, nodes, Usage(), now)


class Fifo:
    """In order of arrival; a job that does not fit holds up all behind it."""

    def decide(
        self, queue: Queue, nodes: Sequence[NodeView], _usage: Usage, now: float
    ) -> Sequence[JobPlacement]:
        pool, started = Pool(nodes, now), []
        for number, job in queue.items():
            placed = start_now(job.shape, pool, Now(pool, job.shape, number))
            if placed is None:
                break
            pool.take(number, ((each.node_id, each.share) for each in placed), now + job.shape.duration_s)
            started.append(JobPlacement(number, placed))
        return started


def choose(name: str, idle: Sequence[NodeView], reservations: int) -> Policy:
    """The policy with this name."""
    if name == "fifo":
        return Fifo()
    return Easy(idle) if name == "easy" else Pit(idle, reservations)
