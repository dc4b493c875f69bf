"""How long to wait before the next try."""

import random


class Backoff:
    """Delays that double up to a bound, each with jitter so that many workers do not come at once."""

    def __init__(self, first_s: float = 0.2, most_s: float = 3.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def delay_s(self) -> float:
        delay_s, self._next_s = self._next_s, min(self._next_s * 2, self._most_s)
        return delay_s * random.uniform(0.5, 1.0)  # noqa: S311

    def reset(self) -> None:
        self._next_s = self._first_s
