"""Who fills a disk: what each writer uses is noted when space gets low, and compared when it runs out."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
LOW_FACTOR = 2  # from twice the space at which a writer is ended, what they use is noted


class WriterWatch(Generic[K]):
    """Watches the free space of one disk."""

    def __init__(self) -> None:
        self._noted: Mapping[K, int] | None = None

    def look(self, free: int, end_below: int, measure: Callable[[], Mapping[K, int]]) -> K | None:
        """The writer to end, if less than `end_below` bytes are free; `measure` says what each one uses."""
        if free >= LOW_FACTOR * end_below:
            self._noted = None
            return None
        if self._noted is not None and free >= end_below:
            return None
        now = measure()
        if self._noted is None:
            self._noted = now
        return choose(self._noted, now) if free < end_below else None


def choose(before: Mapping[K, int], now: Mapping[K, int]) -> K | None:
    """The writer that has grown most; if none has, the one that uses most; None if none uses anything."""
    grown = {writer: size - before.get(writer, 0) for writer, size in now.items()}
    ranked = grown if any(size > 0 for size in grown.values()) else now
    largest = max(ranked, key=lambda writer: ranked[writer], default=None)
    return largest if largest is not None and now[largest] > 0 else None
