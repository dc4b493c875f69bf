"""When a waiting job will start: not before, and not after."""

from typing import NamedTuple


class StartRange(NamedTuple):
    earliest: float
    latest: float
