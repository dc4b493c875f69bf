"""Limits of users and groups: how much of what a pass has placed may start.

Jobs that are over a limit before the pass take no part in it. So this matters only for those that are over it
together; they take no part in the next pass, which follows at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.reason import Reason


class Left(NamedTuple):
    """What an account may still start."""

    jobs: float = inf
    gpus: float = inf
    gpu_s: float = inf  # GPU-seconds; what is used up may be below 0

    def minus(self, gpus: int, gpu_s: float) -> "Left":
        return Left(self.jobs - 1, self.gpus - gpus, self.gpu_s - gpu_s)

    def allows(self, gpus: int, gpu_s: float) -> bool:
        """Whether a job with so many GPUs may start; `gpu_s` is 0 if nobody knows how long it runs."""
        return self.jobs >= 1 and gpus <= self.gpus and (not gpus or gpu_s <= self.gpu_s > 0)


@dataclass(frozen=True)
class Limits:
    """The accounts that have limits, and the jobs that count for them."""

    left: Mapping[str, Left] = field(default_factory=dict)  # by account, such as `user anna`
    accounts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # by job
    limit_s: Mapping[int, float] = field(default_factory=dict)  # time limits of these jobs, if they have one

    def admit(self, placements: Sequence[JobPlacement]) -> tuple[tuple[JobPlacement, ...], dict[int, Reason]]:
        """The placements that all limits allow together, in their order; and why the others wait."""
        left, admitted, waiting = dict(self.left), [], {}
        for job in placements:
            accounts = self.accounts.get(job.number, ())
            gpus = sum(len(process.share.units) for process in job.processes)
            gpu_s = gpus * self.limit_s.get(job.number, 0.0)
            over = next((name for name in accounts if not left[name].allows(gpus, gpu_s)), None)
            if over is not None:
                waiting[job.number] = Reason(f"waits for other jobs of {over}, which use up its limits")
                continue
            for name in accounts:
                left[name] = left[name].minus(gpus, gpu_s)
            admitted.append(job)
        return tuple(admitted), waiting
