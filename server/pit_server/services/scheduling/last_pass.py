"""The latest pass of the scheduler, for those who ask why."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from pit_protocol.arrays.numbers import array_of
from pit_server.scheduler.explain import Explainer
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.plan import Given, Plan
from pit_server.scheduler.pool import Pool
from pit_server.scheduler.reason import Reason
from pit_server.services.scheduling import arrays
from pit_server.services.scheduling.run_times import RunTimes


@dataclass(frozen=True)
class LastPass:
    """What the pass decided on, and what it decided; only the factors of its plan may grow later."""

    given: Given = field(default_factory=lambda: Given({}, ()))
    plan: Plan = field(default_factory=Plan)
    reasons: Mapping[int, Reason] = field(default_factory=dict)  # why each waiting job waits
    run_times: RunTimes = field(default_factory=lambda: RunTimes(0.0))  # that it planned with


class FreshReasons:
    """Why jobs wait by what the latest pass left, also those that it had no reason to look at."""

    def __init__(self, last: LastPass) -> None:
        self._last = last
        self._lock = threading.Lock()
        self._explainer: Explainer | None = None
        self._known: dict[int, Reason] = {}

    def find(self, number: int) -> Reason | None:
        """The reason of a waiting job, made for the first who asks; None: the pass did not consider it."""
        with self._lock:
            if number not in self._known:
                queue = self._last.given.queue
                waiting = queue.get(arrays.first_in(queue, number))
                if waiting is None:
                    return None
                self._known[number] = arrays.as_known(self._explain(waiting))
            return self._known[number]

    def _explain(self, waiting: Waiting) -> Reason:
        if self._explainer is None:
            self._explainer = Explainer(nodes_after(self._last), self._last.given.idle)
        return self._explainer.explain(waiting.number, waiting.shape)


def nodes_after(last: LastPass) -> Pool:
    """The nodes when everything has started that the pass placed, with what it reserved."""
    given = last.given
    pool = Pool(given.nodes, given.now)
    for placed in last.plan.placements:
        job = given.queue.get(placed.number)
        until = given.now + (job.shape.duration_s if job else 0.0)
        shares = ((process.node_id, process.share) for process in placed.processes)
        pool.take(array_of(placed.number), shares, until)
    for number, reserved in last.plan.reservations.items():
        shares = ((process.node_id, process.share) for process in reserved.processes)
        pool.reserve(number, shares, reserved.start, reserved.end)
    return pool
