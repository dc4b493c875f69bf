"""How long to wait before the next try."""

import random


class Backoff:
    """Delays that double up to a bound, with jitter so that many clients do not come back at once.

    The loop that retries stays with its caller; with `tries`, it ends when the backoff `is_exhausted`.
    """

    def __init__(self, first_s: float = 0.2, most_s: float = 3.0, *, tries: int | None = None) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._tries = tries
        self._next_s = first_s
        self._left = tries

    @property
    def is_exhausted(self) -> bool:
        """Whether all delays were used since the last reset."""
        return self._left == 0

    def delay_s(self) -> float:
        """The next delay."""
        delay_s, self._next_s = self._next_s, min(self._next_s * 2, self._most_s)
        if self._left:
            self._left -= 1
        return delay_s * random.uniform(0.5, 1.0)  # noqa: S311

    def reset(self) -> None:
        """Begin with the first delay again."""
        self._next_s = self._first_s
        self._left = self._tries
