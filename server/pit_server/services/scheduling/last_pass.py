"""The latest pass of the scheduler, for those who ask why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pit_server.scheduler.capacity import FreeCapacity, Held
from pit_server.scheduler.plan import Given, Plan
from pit_server.scheduler.reason import Reason


@dataclass(frozen=True)
class LastPass:
    """What the pass decided on, and what it decided; only the factors of its plan may grow later."""

    given: Given = field(default_factory=lambda: Given({}, ()))
    plan: Plan = field(default_factory=Plan)
    reasons: Mapping[int, Reason] = field(default_factory=dict)  # why each waiting job waits


class NodesAfterPass:
    """What is free and what is held on each node when everything has started that the pass placed."""

    def __init__(self, last: LastPass) -> None:
        given = last.given
        self.free = {view.id: FreeCapacity.of(view) for view in given.nodes}
        self.held = {view.id: list(view.held) for view in given.nodes}
        for placed in last.plan.placements:
            job = given.queue.get(placed.number)
            until = given.now + (job.shape.duration_s if job else 0.0)
            for process in placed.processes:
                self.free[process.node_id].add(process.share, -1)
                self.held[process.node_id].append(Held(placed.number, until, process.share))
