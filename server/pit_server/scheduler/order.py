"""The order of the queue: priority, then decayed fair share between groups and their users, then arrival.

Each job is charged in advance: the second job of a user counts as if the first had run. So a user
with many waiting jobs does not hold up one with few, whatever fits.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import NamedTuple

from pit_server.scheduler.demand import Shape

FIRST = -1.0  # in the factors of a job that comes before all others of its priority


class Waiting(NamedTuple):
    """One job of the queue."""

    number: int
    shape: Shape
    user: str = ""
    group: str = ""  # that is charged; empty: all users without one
    priority: int = 0  # the higher comes first
    cost: float = 0.0  # weighted resource-seconds that it will use
    array: int = 0  # that it is an element of: it has come with it


class Factors(NamedTuple):
    """Why a job has its place in the order: jobs are sorted by these."""

    priority: int  # negated
    group_use: float  # weighted resource-seconds of its group, with the group's jobs ahead of it
    user_use: float  # the same of its user
    arrival: int  # its number, or that of its array
    number: int


@dataclass(frozen=True)
class Usage:
    """Decayed weighted resource-seconds that were used."""

    users: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)


class _Group:
    """The waiting jobs of one group and priority: a line for each user."""

    __slots__ = ("heap", "lines")

    def __init__(self) -> None:
        self.lines: dict[str, deque[Waiting]] = {}
        self.heap: list[tuple[float, int, int, str]] = []  # of users: see `_entry`


class Order:
    """The queue in its order, found job by job: nothing is sorted before it is needed."""

    def __init__(self, usage: Usage) -> None:
        self.factors: dict[int, Factors] = {}  # of the jobs that were taken out
        self._users = defaultdict(float, usage.users)  # with these jobs
        self._groups = defaultdict(float, usage.groups)
        self._first: Waiting | None = None  # comes before all others of its priority
        self._waiting: dict[int, dict[str, _Group]] = {}  # by negated priority and group
        self._level: int | None = None  # the priority of the heap
        self._next: Factors | None = None  # of the job on top of it
        self._heap: list[tuple[float, float, int, int, str]] = []  # of groups: factors of their first job
        self._places: dict[tuple[int, str], tuple[list[float], list[float]]] = {}  # uses of the jobs so far

    def __bool__(self) -> bool:
        return bool(self._waiting or self._first)

    def put_first(self, job: Waiting) -> None:
        """Put in a job, before all others of its priority; there is at most one."""
        self._next, self._first = None, job

    def add(self, job: Waiting) -> None:
        """Put in a job; it gets its place among those that are left."""
        self._next = None
        level = -job.priority
        if level == self._level:
            self._level = None  # its heaps are made again
        groups = self._waiting.setdefault(level, {})
        group = groups.get(job.group)
        if group is None:
            group = groups[job.group] = _Group()
        line = group.lines.get(job.user)
        if line is None:
            line = group.lines[job.user] = deque()
        line.append(job)

    def peek(self) -> Factors | None:
        """The factors of the next job."""
        first = self._first
        if self._next is None and first and -first.priority <= min(self._waiting, default=inf):
            self._next = Factors(-first.priority, FIRST, FIRST, first.array or first.number, first.number)
        elif self._next is None and self._waiting:
            level = min(self._waiting)
            if level != self._level:
                self._activate(level)
            self._next = Factors(level, *self._heap[0][:4])
        return self._next

    def pop(self) -> Waiting | None:
        """Take out the next job, and charge its user and group for it."""
        first = self.peek()
        if first is None:
            return None
        self._next = None
        if self._first and first.number == self._first.number:
            job, self._first = self._first, None
            self._places.setdefault((first.priority, job.group), ([], []))
            self._charge(job, first)
            return job
        level, name = first.priority, self._heap[0][4]
        group = self._waiting[level][name]
        user = group.heap[0][3]
        line = group.lines[user]
        job = line.popleft()
        self._charge(job, first)
        if line:
            heapreplace(group.heap, self._entry(user, line))
        else:
            heappop(group.heap)
            del group.lines[user]
        if group.heap:
            heapreplace(self._heap, self._key(level, name, group))
        else:
            heappop(self._heap)
            self._drop(level, name)
        return job

    def _activate(self, level: int) -> None:
        self._level = level
        groups = self._waiting[level]
        for group in groups.values():
            group.heap = [self._entry(user, line) for user, line in group.lines.items()]
            heapify(group.heap)
        self._heap = [self._key(level, name, group) for name, group in groups.items()]
        heapify(self._heap)

    def _entry(self, user: str, line: deque[Waiting]) -> tuple[float, int, int, str]:
        """What a user has used, the arrival and number of their first job, and their name."""
        first = line[0]
        return self._users[user], first.array or first.number, first.number, user

    def _key(self, level: int, name: str, group: _Group) -> tuple[float, float, int, int, str]:
        used, arrival, number, _ = group.heap[0]
        places = self._places.get((level, name))
        if places is None:
            places = self._places[level, name] = ([], [])
        users, groups = places
        # One that comes late gets the place that it would have had among those that are out already.
        is_late = users and used < users[-1]
        total = groups[bisect_right(users, used)] if is_late else self._groups[name]
        return total, used, arrival, number, name

    def _charge(self, job: Waiting, factors: Factors) -> None:
        self.factors[job.number] = factors
        self._users[job.user] += job.cost
        users, groups = self._places[factors.priority, job.group]
        if not users or factors.user_use >= users[-1]:
            users.append(factors.user_use)
            groups.append(factors.group_use)
            self._groups[job.group] += job.cost

    def _drop(self, level: int, name: str) -> None:
        del self._waiting[level][name]
        if not self._waiting[level]:
            del self._waiting[level]
            self._level = None
