"""The latest pass of the scheduler, for those who ask why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pit_server.scheduler.plan import Given, Plan
from pit_server.scheduler.pool import Pool
from pit_server.scheduler.reason import Reason
from pit_server.services.scheduling.run_times import RunTimes


@dataclass(frozen=True)
class LastPass:
    """What the pass decided on, and what it decided; only the factors of its plan may grow later."""

    given: Given = field(default_factory=lambda: Given({}, ()))
    plan: Plan = field(default_factory=Plan)
    reasons: Mapping[int, Reason] = field(default_factory=dict)  # why each waiting job waits
    run_times: RunTimes = field(default_factory=lambda: RunTimes(0.0))  # that it planned with


def nodes_after(last: LastPass) -> Pool:
    """The nodes when everything has started that the pass placed, with what it reserved."""
    given = last.given
    pool = Pool(given.nodes, given.now)
    for placed in last.plan.placements:
        job = given.queue.get(placed.number)
        until = given.now + (job.shape.duration_s if job else 0.0)
        pool.take(placed.number, ((process.node_id, process.share) for process in placed.processes), until)
    for number, reserved in last.plan.reservations.items():
        shares = ((process.node_id, process.share) for process in reserved.processes)
        pool.reserve(number, shares, reserved.start, reserved.end)
    return pool
