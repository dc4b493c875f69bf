"""One node during a pass: what is free now, what becomes free when, and what is reserved."""

from dataclasses import dataclass
from math import inf

from pit_server.scheduler.capacity import FreeCapacity, Held, NodeView, Share

NOBODY = 0  # the job of a maintenance window


@dataclass(frozen=True, slots=True)
class Booking:
    """What is kept on a node for a job that starts later; None: the whole node."""

    start: float
    end: float
    job: int
    share: Share | None


class NodeState:
    __slots__ = ("_times", "booked", "free", "held", "is_changed", "view")

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.is_changed = False  # it is no longer what the view says
        self._times: dict[str, list[tuple[int, float]]] = {}
        self.free = FreeCapacity.of(view)
        self.held = sorted(view.held, key=lambda held: held.until)
        self.booked = [Booking(window.start, window.end, NOBODY, None) for window in view.windows]

    def take(self, job: int, share: Share, until: float) -> None:
        """A process of the job starts now."""
        self.free.add(share, -1)
        self.held.append(Held(job, until, share))
        self.held.sort(key=lambda held: held.until)
        self.is_changed = True
        self._times.clear()

    def cancel(self, job: int) -> None:
        """Drop what is reserved for the job."""
        self.booked = [booking for booking in self.booked if booking.job != job]

    def offer(self, start: float, end: float, now: float) -> FreeCapacity:
        """What is free during the whole period; the caller must not change it."""
        if start <= now and not self.booked:
            return self.free
        offer = self._without_bookings(start, now)
        overlapping = [booking for booking in self.booked if booking.start < end and booking.end > start]
        if not overlapping:
            return offer
        if any(booking.share is None for booking in overlapping):
            return FreeCapacity(self.view, 0, 0, 0, {})
        self._leave_amounts(offer, overlapping, start, now)
        for booking in overlapping:
            for kind, unit in booking.share.units if booking.share else ():
                if unit in offer.units.get(kind, ()):
                    offer.remove_unit(kind, unit)
        return offer

    def free_from(self, kind: str, amount: int) -> float | None:
        """When so much of the kind is free, by the time limits of what runs; None: never."""
        if kind not in self._times:
            self._times[kind] = self._list_times(kind)
        return next((at for have, at in self._times[kind] if have >= amount), None)

    def next_change(self, after: float) -> float | None:
        """When more may be free than at `after`."""
        ends = [held.until for held in self.held if after < held.until < inf]
        ends += [booking.end for booking in self.booked if booking.end > after]
        return min(ends, default=None)

    def last_change(self) -> float:
        ends = [held.until for held in self.held if held.until < inf] + [
            booking.end for booking in self.booked
        ]
        return max(ends, default=0.0)

    def _list_times(self, kind: str) -> list[tuple[int, float]]:
        """How much of the kind is free from which time on."""
        have = self.free.amount(kind)
        times = [(have, 0.0)]
        for held in self.held:
            if held.until < inf and (amount := held.share.amount(kind)):
                have += amount
                times.append((have, held.until))
        return times

    def _without_bookings(self, at: float, now: float) -> FreeCapacity:
        offer = self.free.copy()
        if at > now:
            for held in self.held:
                if held.until > at:
                    break
                offer.add(held.share)
        return offer

    def _leave_amounts(
        self, offer: FreeCapacity, overlapping: list[Booking], start: float, now: float
    ) -> None:
        """Lower slots, cores and memory to the least that is left at any time of the period."""
        least: list[tuple[int, int, int]] = []
        for at in {start, *(booking.start for booking in overlapping if booking.start > start)}:
            free = offer if at == start else self._without_bookings(at, now)
            active = [b.share for b in overlapping if b.start <= at < b.end and b.share]
            least.append(
                (
                    free.slots - len(active),
                    free.cpu_milli - sum(share.cpu_milli or 0 for share in active),
                    free.memory_mib - sum(share.memory_mib or 0 for share in active),
                )
            )
        offer.slots, offer.cpu_milli, offer.memory_mib = (min(column) for column in zip(*least, strict=True))
