"""One node during a pass: what is free now, what becomes free when, and what is reserved."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import NamedTuple

from pit_server.scheduler.capacity import FreeCapacity, Held, NodeView, Share, Unit

NOBODY = 0  # the job of a maintenance window
_until = attrgetter("until")


class Booking(NamedTuple):
    """What is kept on a node for the processes of a job that starts later."""

    start: float
    end: float
    job: int
    slots: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    units: tuple[Unit, ...] = ()
    is_whole: bool = False  # nothing else runs there meanwhile


class NodeState:
    __slots__ = ("_later", "_times", "booked", "free", "held", "is_changed", "view")

    def __init__(self, view: NodeView) -> None:
        self.booked: list[Booking] = []
        self.renew(view)

    def renew(self, view: NodeView) -> None:
        """The node has changed; what is reserved for jobs stays."""
        self.view = view
        self.is_changed = False  # it is no longer what the view says
        self.free = FreeCapacity.of(view)
        self.held = sorted(view.held, key=_until)
        windows = [Booking(window.start, window.end, NOBODY, is_whole=True) for window in view.windows]
        self.booked = windows + [booking for booking in self.booked if booking.job != NOBODY]
        self._forget_times()

    def take(self, job: int, share: Share, until: float) -> None:
        """A process of the job starts now."""
        self.free.add(share, -1)
        self.held.append(Held(job, until, share))
        self.held.sort(key=_until)
        self.is_changed = True
        self._forget_times()

    def cancel(self, job: int) -> None:
        """Drop what is reserved for the job."""
        self.booked = [booking for booking in self.booked if booking.job != job]

    def offer(self, start: float, end: float, now: float) -> FreeCapacity:
        """What is free during the whole period; the caller must not change it."""
        before = self.free if start <= now else self._free_at(start)
        if not self.booked:
            return before
        overlapping = [booking for booking in self.booked if booking.start < end and booking.end > start]
        if not overlapping:
            return before
        if any(booking.is_whole for booking in overlapping):
            return FreeCapacity(self.view, 0, 0, 0, {})
        offer = before.copy()
        self._leave_amounts(offer, overlapping, start)
        for booking in overlapping:
            for kind, unit in booking.units:
                if unit in offer.units.get(kind, ()):
                    offer.remove_unit(kind, unit)
        return offer

    def free_from(self, kind: str, amount: int) -> float | None:
        """When so much of the kind is free, by the time limits of what runs; None: never."""
        if self.free.amount(kind) >= amount:
            return 0.0
        self._list_times()
        later = zip(self._times, self._later, strict=True)
        return next((at for at, free in later if free.amount(kind) >= amount), None)

    def next_change(self, after: float) -> float | None:
        """When more may be free than at `after`."""
        self._list_times()
        position = bisect_right(self._times, after)
        ends = [booking.end for booking in self.booked if booking.end > after]
        return min((*ends, *self._times[position : position + 1]), default=None)

    def last_change(self) -> float:
        self._list_times()
        return max((*(booking.end for booking in self.booked), *self._times[-1:]), default=0.0)

    def _free_at(self, at: float) -> FreeCapacity:
        """What will be free, but for what is reserved."""
        self._list_times()
        position = bisect_right(self._times, at)
        return self._later[position - 1] if position else self.free

    def _forget_times(self) -> None:
        self._times: list[float] = []  # at which something ends
        self._later: list[FreeCapacity] = []  # what is free from these times on

    def _list_times(self) -> None:
        """Done when it is first asked for: most nodes are never looked at that closely."""
        if self._times:
            return
        free = self.free
        for until, ending in groupby(self.held, key=_until):
            if until == inf:
                break
            free = free.copy()
            for held in ending:
                free.add(held.share)
            self._times.append(until)
            self._later.append(free)

    def _leave_amounts(self, offer: FreeCapacity, overlapping: list[Booking], start: float) -> None:
        """Lower slots, cores and memory to the least that is left at any time of the period."""
        least = offer.slots, offer.cpu_milli, offer.memory_mib
        for at in {start, *(booking.start for booking in overlapping if booking.start > start)}:
            free = offer if at == start else self._free_at(at)
            slots, cpu_milli, memory_mib = free.slots, free.cpu_milli, free.memory_mib
            for booking in overlapping:
                if booking.start <= at < booking.end:
                    slots -= booking.slots
                    cpu_milli -= booking.cpu_milli
                    memory_mib -= booking.memory_mib
            least = min(least[0], slots), min(least[1], cpu_milli), min(least[2], memory_mib)
        offer.slots, offer.cpu_milli, offer.memory_mib = least


class Arrivals:
    """Times at which nodes may be able to run a process that needs so much of a kind, in order."""

    __slots__ = ("_amount", "_kind", "_times", "line", "seen")

    def __init__(self, kind: str, amount: int, states: Iterable[NodeState], seen: int) -> None:
        self._kind, self._amount = kind, amount
        self._times = {state.view.id: state.free_from(kind, amount) for state in states}
        self.line = sorted((at, node_id) for node_id, at in self._times.items() if at is not None)
        self.seen = seen  # of the changes of the pool

    def renew(self, states: Iterable[NodeState]) -> None:
        """These nodes have changed."""
        for state in states:
            node_id = state.view.id
            if node_id not in self._times:
                continue
            before, at = self._times[node_id], state.free_from(self._kind, self._amount)
            if before == at:
                continue
            self._times[node_id] = at
            if before is not None:
                del self.line[bisect_left(self.line, (before, node_id))]
            if at is not None:
                insort(self.line, (at, node_id))
