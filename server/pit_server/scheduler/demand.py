"""What jobs ask for, prepared once for the many comparisons of a pass."""

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from pit_grammar import Placement, ProcessGroup, Request
from pit_server.scheduler.kinds import ANY_GPU, CPU, MEMORY, SLOT

PACK, SPREAD, SEQUENTIAL, RANDOM = "pack", "spread", "sequential", "random"  # modes of placement
HOUR_S = 3600.0


@dataclass(frozen=True)
class Access:
    """What one user may not use: whole nodes, and single units of other nodes."""

    closed_nodes: frozenset[int] = frozenset()
    closed_units: frozenset[tuple[int, str]] = frozenset()  # (node's id, unit)
    runtime: str = ""  # that the job needs, if that closes nodes


EVERYTHING = Access()


class UnitNeed(NamedTuple):
    """How many units of one kind a process needs, and can use."""

    kind: str
    low: int
    high: int


class Demand:
    """One process group: how many processes, and what each needs of its node."""

    __slots__ = (
        "_text",
        "amounts",
        "any_gpu",
        "cpu_milli",
        "group",
        "high",
        "index",
        "key",
        "kinds",
        "low",
        "memory_mib",
        "named",
        "needs",
        "placement",
        "units",
    )

    def __init__(self, index: int, group: ProcessGroup) -> None:
        self.index = index  # in its request
        self.group = group
        self.low, self.high = group.count.low, group.count.high
        self.cpu_milli, self.memory_mib = group.cpu_milli, group.memory_mib
        needs = [UnitNeed(need.kind, need.low, need.high) for need in group.gpus]
        self.named = tuple(need for need in needs if need.kind != ANY_GPU)
        self.any_gpu = tuple(need for need in needs if need.kind == ANY_GPU)  # at most one
        self.needs = (*self.named, *self.any_gpu)
        self.units = sum(need.low for need in needs)  # of all kinds, for one process
        self.kinds = tuple(need.kind for need in self.needs)
        self.amounts = (self.cpu_milli or 0, self.memory_mib or 0, *(need.low for need in self.needs))
        self.placement: Placement | None = group.placement
        self.key = self._key()
        self._text = ""

    def __str__(self) -> str:
        self._text = self._text or str(self.group)
        return self._text

    def amount(self, kind: str) -> int:
        """The minimum of one process."""
        if kind in (CPU, MEMORY):
            return (self.cpu_milli if kind == CPU else self.memory_mib) or 0
        return 1 if kind == SLOT else sum(need.low for need in self.needs if need.kind == kind)

    def _key(self) -> tuple[str, int]:
        """The kind by which nodes for it are found, and a lower bound of what a process needs of it."""
        if self.named or self.any_gpu:
            scarcest = max(self.named or self.any_gpu, key=lambda need: need.low)
            return scarcest.kind, scarcest.low
        if self.cpu_milli:
            return CPU, 1 << (self.cpu_milli.bit_length() - 1)
        if self.memory_mib:
            return MEMORY, 1 << (self.memory_mib.bit_length() - 1)
        return SLOT, 1

    @property
    def hardness(self) -> tuple[int, bool, int, int, int]:
        """Those that are hardest to place are placed first: pinned ones, then those that need most."""
        pinned = 0 if self.placement is None else 1 if self.placement.value is not None else 2
        return pinned, not self.any_gpu, self.units, self.cpu_milli or 0, self.memory_mib or 0


class Shape:
    """All that matters for where and when a job can run; jobs with one shape are tried once per pass.

    Compared by identity: whoever makes them uses one object for equal jobs.
    """

    __slots__ = (
        "access",
        "avoided",
        "demands",
        "duration_s",
        "max_processes",
        "mode",
        "named",
        "request",
        "totals",
    )

    def __init__(
        self,
        request: Request,
        access: Access = EVERYTHING,
        duration_s: float = HOUR_S,
        mode: str = PACK,
        avoided: tuple[str, ...] = (),
    ) -> None:
        self.request = request
        self.access = access
        self.duration_s = duration_s  # that it is planned with
        self.mode = mode
        self.avoided = avoided  # names of nodes on which it failed, and that its access leaves out
        self.max_processes = request.max_processes
        demands = [Demand(index, group) for index, group in enumerate(request.groups)]
        self.demands = sorted(demands, key=lambda demand: demand.hardness, reverse=True)
        self.named: Set[str] = {need.kind for demand in demands for need in demand.named}
        self.totals = self._totals()  # what it needs to start, of each kind

    def _totals(self) -> tuple[tuple[str, int], ...]:
        kinds = (SLOT, CPU, MEMORY, *sorted(self.named))
        totals = {kind: sum(demand.amount(kind) * demand.low for demand in self.demands) for kind in kinds}
        totals[ANY_GPU] = self.min_units
        return tuple((kind, amount) for kind, amount in totals.items() if amount)

    @property
    def min_units(self) -> int:
        """The GPUs that it needs to start."""
        return sum(demand.units * demand.low for demand in self.demands)
