"""The order of the queue: priority, then decayed fair share between groups and their users, then arrival.

Each job is charged in advance: the second job of a user counts as if the first had run. So a user
with many waiting jobs does not hold up one with few, whatever fits.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pit_server.scheduler.demand import Shape


class Waiting(NamedTuple):
    """One job of the queue."""

    number: int
    shape: Shape
    user: str = ""
    group: str = ""  # that is charged; empty: all users without one
    priority: int = 0  # the higher comes first
    cost: float = 0.0  # weighted resource-seconds that it will use


class Factors(NamedTuple):
    """Why a job has its place in the order: jobs are sorted by these."""

    priority: int  # negated
    group_use: float  # weighted resource-seconds of its group, with the group's jobs ahead of it
    user_use: float  # the same of its user
    number: int


@dataclass(frozen=True)
class Usage:
    """Decayed weighted resource-seconds that were used."""

    users: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)


class Order:
    """The sorted queue; jobs that come later get their place without sorting all of it again."""

    def __init__(self, queue: Iterable[Waiting], usage: Usage) -> None:
        self._users = defaultdict(float, usage.users)  # with all jobs of the queue
        self._groups = defaultdict(float, usage.groups)
        self._lines: dict[tuple[int, str], tuple[list[float], list[float]]] = {}
        self.factors: dict[int, Factors] = {}
        by_priority: defaultdict[int, defaultdict[str, list[Waiting]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for job in queue:
            by_priority[-job.priority][job.group].append(job)
        for priority, groups in by_priority.items() if len(by_priority) < 2 else sorted(by_priority.items()):
            for group, jobs in groups.items():
                self._charge(priority, group, jobs)
        self.sorted = sorted(self.factors.values())

    def add(self, job: Waiting) -> Factors:
        """Find the place of a new job, among jobs whose places do not change."""
        user_use = self._users[job.user]
        self._users[job.user] += job.cost
        users, groups = self._lines.setdefault((-job.priority, job.group), ([], []))
        position = bisect_right(users, user_use)
        group_use = groups[position] if position < len(groups) else self._groups[job.group]
        if position == len(groups):
            users.append(user_use)
            groups.append(group_use)
            self._groups[job.group] += job.cost
        factors = self.factors[job.number] = Factors(-job.priority, group_use, user_use, job.number)
        return factors

    def _charge(self, priority: int, group: str, jobs: list[Waiting]) -> None:
        """Give the waiting jobs of a group their factors."""
        users, line = self._users, []
        for job in jobs:
            used = users[job.user]
            users[job.user] = used + job.cost
            line.append((used, job.number, job.cost))
        line.sort()
        total = self._groups[group]
        user_uses, group_uses = self._lines.setdefault((priority, group), ([], []))
        for used, number, cost in line:
            self.factors[number] = Factors(priority, total, used, number)
            user_uses.append(used)
            group_uses.append(total)
            total += cost
        self._groups[group] = total
