"""Why a number has no test of its own."""

from typing import NamedTuple


class Later(NamedTuple):
    waits_for: str

    def __str__(self) -> str:
        return f"*later*, with {self.waits_for}"


class Replaced(NamedTuple):
    why: str
    test: str  # path::name

    def __str__(self) -> str:
        return f"*replaced*: {self.why}; `{self.test.partition('::')[0]}`"


class NotPromised(NamedTuple):
    reason: str

    def __str__(self) -> str:
        return f"*not promised*: {self.reason}"


Entry = Later | Replaced | NotPromised
