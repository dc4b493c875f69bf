"""Which smaller request of a waiting job would start now: variations are tried by the real plan."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from pit_grammar import Count, Need, Request
from pit_protocol.answers.why import SmallerRequest
from pit_protocol.durations import HOUR_S, render_duration
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.kinds import ANY_GPU
from pit_server.scheduler.limits import Limits
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.plan import plan
from pit_server.services.scheduling.last_pass import LastPass, nodes_after
from pit_server.services.scheduling.why import shortage

MAX_FOUND = 3
MAX_KINDS = 3  # of other GPUs that are tried
LENGTHS_S = (
    24 * HOUR_S,
    8 * HOUR_S,
    4 * HOUR_S,
    2 * HOUR_S,
    HOUR_S,
    HOUR_S / 2,
    HOUR_S / 6,
)  # that are tried
BUDGET_S = 0.3
_one_at_a_time = threading.Lock()  # so that many who ask do not slow down the passes


@dataclass(frozen=True)
class Variation:
    """Requests that ask for less of one thing: of it, `most` at most."""

    change: str
    most: int
    make: Callable[[int], Request]


class Trials:
    """Tries other requests of one waiting job in the pass that did not start it."""

    def __init__(self, search: "Search", is_over: Callable[[], bool]) -> None:
        self._job = search.job
        given = search.last.given
        self._number = max(given.queue) + 1  # it arrives last
        self._given = replace(given, limits=_limits_for(self._number, search.job.number, given.limits))
        self._resolve = search.resolve
        self.is_over = is_over

    def starts_alone(self, request: Request) -> bool:
        """Whether it would start if nothing else waited."""
        return self._starts(request, self._job.shape.duration_s, {})

    def starts(self, request: Request, length_s: float | None = None) -> bool:
        """Whether it would start if it were submitted now, instead of the job; if it is this short."""
        others = {number: job for number, job in self._given.queue.items() if number != self._job.number}
        return self._starts(request, length_s or self._job.shape.duration_s, others)

    def _starts(self, request: Request, length_s: float, others: dict[int, Waiting]) -> bool:
        old = self._job.shape
        shape = Shape(self._resolve(request), old.access, length_s, old.mode, old.avoided)
        queue = {**others, self._number: self._job._replace(number=self._number, shape=shape)}
        made = plan(replace(self._given, queue=queue), None, self.is_over)
        return any(placed.number == self._number for placed in made.placements)


def _limits_for(number: int, like: int, limits: Limits) -> Limits:
    """The same limits, with a job that counts for the same accounts as another."""
    if like not in limits.accounts:
        return limits
    accounts = {**limits.accounts, number: limits.accounts[like]}
    return replace(
        limits, accounts=accounts, limit_s={**limits.limit_s, number: limits.limit_s.get(like, 0.0)}
    )


@dataclass(frozen=True)
class Search:
    """What is needed to look for smaller requests of a waiting job."""

    last: LastPass
    job: Waiting
    request: Request  # as the user wrote it
    resolve: Callable[[Request], Request]  # adds defaults, and replaces aliases

    def run(self, clock: Callable[[], float] = time.monotonic) -> tuple[list[SmallerRequest], bool]:
        """Requests that would start now, and whether there was time to try all."""
        over_at = clock() + BUDGET_S
        if not _one_at_a_time.acquire(timeout=BUDGET_S):
            return [], False
        try:
            return self._run(Trials(self, lambda: clock() >= over_at))
        finally:
            _one_at_a_time.release()

    def _run(self, trials: Trials) -> tuple[list[SmallerRequest], bool]:
        shape = self.job.shape
        found = self._find_shorter(trials)
        free = shortage.free_kinds(shape.access, nodes_after(self.last))
        for variation in variations(self.request, [kind for kind in free if kind not in shape.named]):
            if len(found) == MAX_FOUND or trials.is_over():
                break
            smaller = _largest(variation, trials)
            if smaller is not None:
                found.append(SmallerRequest(str(smaller), variation.change))
        return found, not trials.is_over()

    def _find_shorter(self, trials: Trials) -> list[SmallerRequest]:
        """The longest time limit with which the job would start before the reservations of others."""
        if trials.starts_alone(self.request):
            for length_s in LENGTHS_S:
                if trials.is_over():
                    break
                if length_s < self.job.shape.duration_s and trials.starts(self.request, length_s):
                    text = render_duration(length_s)
                    return [SmallerRequest(str(self.request), f"with a time limit of {text}", text)]
        return []


def _largest(variation: Variation, trials: Trials) -> Request | None:
    """The largest request of the variation that would start now."""
    low, high = 0, variation.most  # it fits with `low`, and not with more than `high`
    while low < high and not trials.is_over():
        middle = (low + high + 1) // 2
        if trials.starts_alone(variation.make(middle)):
            low = middle
        else:
            high = middle - 1
    while low and not trials.is_over():
        if trials.starts(variation.make(low)):
            return variation.make(low)
        low //= 2
    return None


def variations(request: Request, kinds: Sequence[str]) -> Iterator[Variation]:
    """What the job could ask for instead, the least change first."""
    groups = request.groups
    if any(group.placement for group in groups):
        anywhere = Request(tuple(replace(group, placement=None) for group in groups))
        yield Variation("on any node", 1, lambda _: anywhere)
    for old in sorted(request.kinds - {ANY_GPU}):
        for new in kinds[:MAX_KINDS]:
            other = request.renamed({old: new})
            yield Variation(f"with {new} instead of {old}", 1, lambda _, other=other: other)  # type: ignore[misc]
    largest = max(range(len(groups)), key=lambda index: groups[index].count.low)
    if (low := groups[largest].count.low) > 1:
        yield Variation("with fewer processes", low - 1, lambda count: _with_count(request, largest, count))
    for kind in dict.fromkeys(need.kind for group in groups for need in group.needs):
        most = max(int(_amount(need)) for group in groups for need in group.needs if need.kind == kind)
        if most > 1:
            yield Variation(
                f"with {_LESS.get(kind, 'fewer GPUs')} per process",
                most - 1,
                lambda count, kind=kind: _with_need(request, kind, count),  # type: ignore[misc]
            )


_LESS = {"cpu": "fewer cores", "mem": "less memory"}


def _amount(need: Need) -> int | Decimal:
    """GPUs, cores or GiB, at the minimum."""
    return need.count.low if isinstance(need.count, Count) else need.count


def _with_count(request: Request, index: int, count: int) -> Request:
    groups = list(request.groups)
    groups[index] = replace(groups[index], count=_lower(groups[index].count, count))
    return Request(tuple(groups))


def _with_need(request: Request, kind: str, count: int) -> Request:
    """The same request, with at most so much of the kind for each process."""

    def lower(need: Need) -> Need:
        if need.kind != kind or _amount(need) <= count:
            return need
        less = _lower(need.count, count) if isinstance(need.count, Count) else Decimal(count)
        return Need(kind, less)

    return Request(tuple(replace(group, needs=tuple(map(lower, group.needs))) for group in request.groups))


def _lower(count: Count, low: int) -> Count:
    """An elastic count keeps its maximum."""
    return Count(low, low if count.low == count.high else count.high)
