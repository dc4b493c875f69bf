"""The values of the request language: what `2:[8:a100]@rack=r9` says, ready for a scheduler.

A value that exists keeps the rules of the language; a broken rule is refused with a sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from pit_grammar.errors import BrokenRule, shorten

LARGEST = 100_000  # of any count, and of the processes of one request together
UNITS = {"cpu": 1000, "mem": 1024}  # kinds that take fractions: a core in thousandths, a GiB in MiB

_STEPS = {"cpu": Decimal("0.001"), "mem": Decimal("0.125")}  # to round up to when a fraction is too fine


@dataclass(frozen=True, slots=True)
class Count:
    """How many: `low` at least, `high` at most; elastic where the two differ."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low < 1:
            raise nothing(str(self))
        if self.low > self.high:
            message = f"the range {self} is empty; write {self.high}-{self.low}"
            raise BrokenRule(message, "a range from less to more", "[2-4:a100]")
        if self.high > LARGEST:
            raise too_large(str(self.high))

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Need:
    """One item in the brackets; `cpu` (cores) and `mem` (GiB) have a Decimal, GPUs have a Count."""

    kind: str
    count: Count | Decimal

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind.lower())
        if isinstance(self.count, Decimal) != (self.kind in UNITS):
            raise TypeError(f"cpu and mem are measured by a Decimal, GPUs by a Count: {self.kind}")
        if isinstance(self.count, Decimal):
            _check_measure(self.kind, self.count)

    @property
    def low(self) -> int:
        """The fewest units: GPUs, thousandths of a core for `cpu`, MiB for `mem`."""
        return self.count.low if isinstance(self.count, Count) else _units(self.kind, self.count)[0]

    @property
    def high(self) -> int:
        """The most units, which differs from `low` only for elastic GPUs."""
        return self.count.high if isinstance(self.count, Count) else self.low

    def plus(self, other: "Need") -> "Need":
        """Add up two needs of one kind, as `[a100,a100]` means `[2:a100]`."""
        if isinstance(self.count, Decimal) and isinstance(other.count, Decimal):
            return Need(self.kind, self.count + other.count)
        return Need(self.kind, Count(self.low + other.low, self.high + other.high))

    def __str__(self) -> str:
        count = self.count if isinstance(self.count, Count) else format(self.count.normalize(), "f")
        return _counted(str(count), self.kind)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a process may run: on the node `name`, or on nodes whose label `name` has `value`."""

    name: str
    value: str | None = None

    def allows(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether the node of this name, with these labels, is one of those meant."""
        return node == self.name if self.value is None else labels.get(self.name) == self.value

    def __str__(self) -> str:
        return f"@{self.name}" if self.value is None else f"@{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Like processes: how many, what each needs on its one node, and where it may run."""

    count: Count
    needs: tuple[Need, ...] = ()
    placement: Placement | None = None

    def __post_init__(self) -> None:
        if len({need.kind for need in self.needs}) < len(self.needs):
            raise ValueError("a process names each kind once; add its needs up with `plus`")

    @property
    def cpu_milli(self) -> int | None:
        """Thousandths of a core for each process; None where no `cpu` was asked for."""
        return self._units_of("cpu")

    @property
    def memory_mib(self) -> int | None:
        """MiB for each process; None where no `mem` was asked for."""
        return self._units_of("mem")

    @property
    def gpus(self) -> tuple[Need, ...]:
        """The needs that are neither `cpu` nor `mem`."""
        return tuple(need for need in self.needs if need.kind not in UNITS)

    def renamed(self, meanings: Mapping[str, str]) -> "ProcessGroup":
        """The same with kinds called by other names."""
        needs: dict[str, Need] = {}
        for need in self.needs:
            same = replace(need, kind=meanings.get(need.kind, need.kind))
            needs[same.kind] = needs[same.kind].plus(same) if same.kind in needs else same
        return replace(self, needs=tuple(needs.values()))

    def _units_of(self, kind: str) -> int | None:
        return next((need.low for need in self.needs if need.kind == kind), None)

    def __str__(self) -> str:
        process = f"[{','.join(map(str, self.needs))}]{self.placement or ''}"
        return _counted(str(self.count), process)


@dataclass(frozen=True, slots=True)
class Request:
    """All that one job needs; its `str` is the canonical form and parses to an equal value."""

    groups: tuple[ProcessGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("a request has at least one process group")
        if self.max_processes > LARGEST:
            message = f"the request asks for {self.max_processes:,} processes; {LARGEST:,} is the most"
            raise BrokenRule(message, f"process counts that add up to {LARGEST:,} or less", "2:[],4:[a100]")

    @property
    def min_processes(self) -> int:
        """The processes without which the job does not start."""
        return sum(group.count.low for group in self.groups)

    @property
    def max_processes(self) -> int:
        """The processes beyond which the job does not grow."""
        return sum(group.count.high for group in self.groups)

    @property
    def kinds(self) -> frozenset[str]:
        """The GPUs that are asked for, by the names that were used."""
        return frozenset(need.kind for group in self.groups for need in group.gpus)

    def renamed(self, meanings: Mapping[str, str]) -> "Request":
        """The same request with kinds called by other names; two that become one are added up."""
        if not self.kinds & meanings.keys():
            return self
        return Request(tuple(group.renamed(meanings) for group in self.groups))

    def __str__(self) -> str:
        return ",".join(map(str, self.groups))


def nothing(count: str) -> BrokenRule:
    """Say that a count begins at 0."""
    message = f"the count {shorten(count)} asks for nothing; write 1 or more, or leave this part out"
    return BrokenRule(message, "a count of 1 or more", "[2:a100]")


def too_large(count: str) -> BrokenRule:
    """Say that a count is larger than any cluster."""
    message = f"the count {shorten(count)} is too large; ask for {LARGEST:,} or less"
    return BrokenRule(message, f"a count from 1 to {LARGEST:,}", "[2:a100]")


def _check_measure(kind: str, count: Decimal) -> None:
    if count <= 0:
        raise nothing(f"{count:f}")
    if count > LARGEST:
        raise too_large(f"{count:f}")
    if _units(kind, count)[1]:
        step = _STEPS[kind]
        better = format((count // step * step + step).normalize(), "f")
        unit = "thousandths of a core" if kind == "cpu" else "MiB"
        message = f"{shorten(f'{count:f}:{kind}')} is no whole number of {unit}; write {better}:{kind}"
        raise BrokenRule(message, f"a number of whole {unit}", f"[{better}:{kind}]")


def _units(kind: str, count: Decimal) -> tuple[int, int]:
    """Convert to whole units and a rest; by integers, for Decimal arithmetic rounds long fractions."""
    numerator, denominator = count.as_integer_ratio()
    return divmod(numerator * UNITS[kind], denominator)


def _counted(count: str, thing: str) -> str:
    return thing if count == "1" else f"{count}:{thing}"
