"""The values of the request language: the meaning of `2:[8:a100]@rack=r9`, for the scheduler.

Each value checks the rules of the language when it is created and raises RuleError.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from pit_grammar.errors import RuleError, shorten

MAX_COUNT = 100_000  # of any count, and of all processes of a request
UNITS = {"cpu": 1000, "mem": 1024}  # kinds with fractions: thousandths of a core, MiB of a GiB

_STEPS = {"cpu": Decimal("0.001"), "mem": Decimal("0.125")}  # for the suggestion when a fraction is too fine


@dataclass(frozen=True, slots=True)
class Count:
    """How many: `low` at least, `high` at most; elastic where the two differ."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low < 1:
            raise zero_count(str(self))
        if self.low > self.high:
            message = f"the range {self} is empty; write {self.high}-{self.low}"
            raise RuleError(message, "a range from low to high", "[2-4:a100]")
        if self.high > MAX_COUNT:
            raise too_large(str(self.high))

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Need:
    """One item in the brackets; `cpu` (cores) and `mem` (GiB) have a Decimal, GPUs a Count."""

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
        """The minimum in units: GPUs, thousandths of a core for `cpu`, MiB for `mem`."""
        return self.count.low if isinstance(self.count, Count) else _units(self.kind, self.count)[0]

    @property
    def high(self) -> int:
        """The maximum in units; differs from `low` only for elastic GPUs."""
        return self.count.high if isinstance(self.count, Count) else self.low

    def plus(self, other: "Need") -> "Need":
        """The sum of two needs of one kind: `[a100,a100]` means `[2:a100]`."""
        if isinstance(self.count, Decimal) and isinstance(other.count, Decimal):
            return Need(self.kind, self.count + other.count)
        return Need(self.kind, Count(self.low + other.low, self.high + other.high))

    def __str__(self) -> str:
        count = self.count if isinstance(self.count, Count) else format(self.count.normalize(), "f")
        return _with_count(str(count), self.kind)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a process may run: on the node `name`, or on nodes whose label `name` has `value`."""

    name: str
    value: str | None = None

    def allows(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether the placement allows the node with this name and these labels."""
        return node == self.name if self.value is None else labels.get(self.name) == self.value

    def __str__(self) -> str:
        return f"@{self.name}" if self.value is None else f"@{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Equal processes: how many, what each needs on its node, and where it may run."""

    count: Count
    needs: tuple[Need, ...] = ()
    placement: Placement | None = None

    def __post_init__(self) -> None:
        if len({need.kind for need in self.needs}) < len(self.needs):
            raise ValueError("a process names each kind once; add its needs with `plus`")

    @property
    def cpu_milli(self) -> int | None:
        """Thousandths of a core for each process; None without `cpu`."""
        return self._units_of("cpu")

    @property
    def memory_mib(self) -> int | None:
        """MiB for each process; None without `mem`."""
        return self._units_of("mem")

    @property
    def gpus(self) -> tuple[Need, ...]:
        """The needs that are neither `cpu` nor `mem`."""
        return tuple(need for need in self.needs if need.kind not in UNITS)

    def renamed(self, names: Mapping[str, str]) -> "ProcessGroup":
        """The same group with kinds replaced by other names."""
        needs: dict[str, Need] = {}
        for need in self.needs:
            renamed = replace(need, kind=names.get(need.kind, need.kind))
            known = needs.get(renamed.kind)
            needs[renamed.kind] = known.plus(renamed) if known else renamed
        return replace(self, needs=tuple(needs.values()))

    def with_defaults(self, defaults: tuple[Need, ...]) -> "ProcessGroup":
        """The same group with these needs where it names no need of their kinds."""
        named = {need.kind for need in self.needs}
        return replace(self, needs=(*self.needs, *(need for need in defaults if need.kind not in named)))

    def _units_of(self, kind: str) -> int | None:
        return next((need.low for need in self.needs if need.kind == kind), None)

    def lowest(self) -> "ProcessGroup":
        """The same group at its minimum."""
        needs = (
            need if isinstance(need.count, Decimal) else replace(need, count=Count(need.low, need.low))
            for need in self.needs
        )
        return replace(self, count=Count(self.count.low, self.count.low), needs=tuple(needs))

    def __str__(self) -> str:
        process = f"[{','.join(map(str, self.needs))}]{self.placement or ''}"
        return _with_count(str(self.count), process)


@dataclass(frozen=True, slots=True)
class Request:
    """What one job needs; its `str` is the canonical form and parses to an equal value."""

    groups: tuple[ProcessGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("a request has at least one process group")
        if self.max_processes > MAX_COUNT:
            message = f"the request asks for {self.max_processes:,} processes; the maximum is {MAX_COUNT:,}"
            raise RuleError(message, f"process counts that add up to {MAX_COUNT:,} or less", "2:[],4:[a100]")

    @property
    def min_processes(self) -> int:
        """The number of processes that the job needs to start."""
        return sum(group.count.low for group in self.groups)

    @property
    def max_processes(self) -> int:
        """The number of processes that the job can use."""
        return sum(group.count.high for group in self.groups)

    @property
    def kinds(self) -> frozenset[str]:
        """The requested kinds of GPU, by the names in the request."""
        return frozenset(need.kind for group in self.groups for need in group.gpus)

    def renamed(self, names: Mapping[str, str]) -> "Request":
        """The same request with kinds replaced by other names; two that become one are added."""
        if not self.kinds & names.keys():
            return self
        return Request(tuple(group.renamed(names) for group in self.groups))

    def with_defaults(self, defaults: tuple[Need, ...]) -> "Request":
        """The same request with these needs for each process that names none of their kinds."""
        return Request(tuple(group.with_defaults(defaults) for group in self.groups)) if defaults else self

    def lowest(self) -> "Request":
        """The same request at its minimum, not elastic."""
        return Request(tuple(group.lowest() for group in self.groups))

    def __str__(self) -> str:
        return ",".join(map(str, self.groups))


def zero_count(count: str) -> RuleError:
    """The error for a count that starts at 0."""
    message = f"the count {shorten(count)} is zero; write 1 or more, or leave this part out"
    return RuleError(message, "a count of 1 or more", "[2:a100]")


def too_large(count: str) -> RuleError:
    """The error for a count above the maximum."""
    message = f"the count {shorten(count)} is too large; ask for {MAX_COUNT:,} or less"
    return RuleError(message, f"a count from 1 to {MAX_COUNT:,}", "[2:a100]")


def _check_measure(kind: str, count: Decimal) -> None:
    if count <= 0:
        raise zero_count(f"{count:f}")
    if count > MAX_COUNT:
        raise too_large(f"{count:f}")
    if _units(kind, count)[1]:
        step = _STEPS[kind]
        better = format((count // step * step + step).normalize(), "f")
        unit = "thousandths of a core" if kind == "cpu" else "MiB"
        message = f"{shorten(f'{count:f}:{kind}')} is not a whole number of {unit}; write {better}:{kind}"
        raise RuleError(message, f"a number of whole {unit}", f"[{better}:{kind}]")


def _units(kind: str, count: Decimal) -> tuple[int, int]:
    """Convert to whole units and a remainder; with integers, because Decimal rounds long fractions."""
    numerator, denominator = count.as_integer_ratio()
    return divmod(numerator * UNITS[kind], denominator)


def _with_count(count: str, thing: str) -> str:
    return thing if count == "1" else f"{count}:{thing}"
