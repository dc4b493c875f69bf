"""What a simulation shows: how well the nodes were used, how long jobs waited, and how fair that was."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from pit_server.scheduler.demand import HOUR_S
from pit_server.simulator.simulation import Ran
from pit_server.simulator.trace import Trace, amount_of

SHORT_S = 10.0  # a job that is shorter counts as if it took so long, or its slowdown would say nothing


@dataclass(frozen=True)
class Results:
    policy: str
    load: float  # that arrived
    jobs: int
    utilisation: float  # while jobs arrived
    mean_wait_s: float
    p95_wait_s: float
    max_wait_s: float  # starvation shows here
    slowdown: float  # mean of (wait + run) / run, bounded
    fairness: float  # Jain's index of what users got, per fair share: 1 if all are alike, 1/n if one got all


HEADINGS = (
    "policy",
    "load",
    "jobs",
    "utilisation",
    "mean wait",
    "p95 wait",
    "max wait",
    "slowdown",
    "fairness",
)


def render(rows: Sequence[Results]) -> str:
    """A table for people."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (zip(line, widths, strict=True) for line in cells)
    return "\n".join("  ".join(text.rjust(width) for text, width in line) for line in lines)


def _cells(row: Results) -> tuple[str, ...]:
    waits = (f"{seconds / HOUR_S:.2f} h" for seconds in (row.mean_wait_s, row.p95_wait_s, row.max_wait_s))
    shares = f"{row.load:.2f}", f"{row.jobs}", f"{row.utilisation:.1%}"
    return row.policy, *shares, *waits, f"{row.slowdown:.1f}", f"{row.fairness:.3f}"


def summarize(policy: str, trace: Trace, ran: Sequence[Ran]) -> Results:
    waits = sorted(each.wait_s for each in ran)
    return Results(
        policy=policy,
        load=trace.load,
        jobs=len(ran),
        utilisation=sum(_work_of_users(trace, ran).values()) / _offered(trace),
        mean_wait_s=fmean(waits),
        p95_wait_s=waits[ceil(0.95 * len(waits)) - 1],
        max_wait_s=waits[-1],
        slowdown=fmean(map(_slowdown, ran)),
        fairness=_fairness(trace, ran),
    )


def _slowdown(ran: Ran) -> float:
    return max(1.0, (ran.wait_s + ran.job.run_s) / max(ran.job.run_s, SHORT_S))


def _offered(trace: Trace) -> float:
    """What the nodes can do from the first arrival to the last."""
    return trace.capacity * trace.window_s or 1.0


def _work_of_users(trace: Trace, ran: Sequence[Ran]) -> dict[str, float]:
    """What was done from the first arrival to the last; after it, only the last long jobs are left."""
    last = trace.jobs[-1].submitted
    work: defaultdict[str, float] = defaultdict(float)
    for each in ran:
        done_s = max(0.0, min(each.ended, last) - each.started)
        work[each.job.user] += amount_of(each.job.request, trace.resource) * done_s
    return work


def _fairness(trace: Trace, ran: Sequence[Ran]) -> float:
    """Who asks for less than an equal share is entitled to it all, and the others share the rest equally."""
    asked: defaultdict[str, float] = defaultdict(float)
    for job in trace.jobs:
        asked[job.user] += amount_of(job.request, trace.resource) * job.run_s
    known = sorted((amount, user) for user, amount in asked.items() if amount)
    left, entitled = _offered(trace), {}
    for count, (amount, user) in enumerate(known):
        entitled[user] = min(amount, left / (len(known) - count))
        left -= entitled[user]
    got = _work_of_users(trace, ran)
    return jain([min(1.0, got[user] / share) for user, share in entitled.items()]) if entitled else 1.0


def jain(values: Sequence[float]) -> float:
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
