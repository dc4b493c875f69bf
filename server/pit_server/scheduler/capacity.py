"""The capacity of nodes as values, and what is left of one node for one period of time."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pit_server.scheduler.demand import EVERYTHING, Access, Demand
from pit_server.scheduler.kinds import ANY_GPU, CPU, MEMORY, SLOT

Unit = tuple[str, str]  # kind and name of the unit


@dataclass(frozen=True, slots=True)
class Share:
    """What one process gets of its node."""

    cpu_milli: int | None
    memory_mib: int | None
    units: tuple[Unit, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """What it has something of."""
        kinds = [SLOT]
        if self.cpu_milli:
            kinds.append(CPU)
        if self.memory_mib:
            kinds.append(MEMORY)
        if self.units:
            kinds += (ANY_GPU, *dict.fromkeys(kind for kind, _ in self.units))
        return kinds

    def amount(self, kind: str) -> int:
        """How much of the kind it has; each process has one slot."""
        if kind == SLOT:
            return 1
        if kind in (CPU, MEMORY):
            return (self.cpu_milli if kind == CPU else self.memory_mib) or 0
        return len(self.units) if kind == ANY_GPU else sum(each == kind for each, _ in self.units)


@dataclass(frozen=True, slots=True)
class Held:
    """What a process of a job holds of its node, and until when by its time limit."""

    job: int
    until: float
    share: Share


@dataclass(frozen=True, slots=True)
class Window:
    """A period in which a node takes no processes."""

    start: float
    end: float


@dataclass(frozen=True)
class NodeView:
    """What one node offers at one moment."""

    id: int
    name: str
    slots: int
    cpu_milli: int
    memory_mib: int
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # kind -> free units
    labels: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""  # why it takes no new processes though it is online
    state: str = "online"  # as shown to users
    faulty_units: Mapping[str, int] = field(default_factory=dict)  # kind -> how many units are in trouble
    held: tuple[Held, ...] = ()  # by the processes that run there
    windows: tuple[Window, ...] = ()  # of maintenance
    remark: str = ""  # why its admin took it out of service

    network: str = ""  # all processes of a job are on nodes with the same

    @property
    def is_open(self) -> bool:
        """Whether it takes new processes."""
        return self.state == "online" and not self.trouble


class FreeCapacity:
    """What is left of a node; each placed process takes its share."""

    __slots__ = ("cpu_milli", "memory_mib", "slots", "units", "view")

    def __init__(
        self, view: NodeView, slots: int, cpu_milli: int, memory_mib: int, units: dict[str, list[str]]
    ) -> None:
        self.view = view
        self.slots = slots
        self.cpu_milli = cpu_milli
        self.memory_mib = memory_mib
        self.units = units

    @classmethod
    def of(cls, view: NodeView) -> "FreeCapacity":
        units = {kind: list(units) for kind, units in view.units.items() if units}
        return cls(view, view.slots, view.cpu_milli, view.memory_mib, units)

    def copy(self) -> "FreeCapacity":
        units = {kind: units[:] for kind, units in self.units.items()}
        return FreeCapacity(self.view, self.slots, self.cpu_milli, self.memory_mib, units)

    def free(self, kind: str, access: Access = EVERYTHING) -> int:
        """Count the units of the kind that are left and that the user may use; for any GPU, of all kinds."""
        if not access.closed_units:
            if kind == ANY_GPU:
                return sum(map(len, self.units.values()))
            return len(self.units[kind]) if kind in self.units else 0
        if kind == ANY_GPU:
            return sum(self.free(each, access) for each in self.units)
        return sum((self.view.id, unit) not in access.closed_units for unit in self.units.get(kind, ()))

    def amount(self, kind: str) -> int:
        """What is left of any kind, also of cores, memory and slots."""
        if kind == SLOT:
            return self.slots
        if kind in (CPU, MEMORY):
            return self.cpu_milli if kind == CPU else self.memory_mib
        return self.free(kind)

    def count(self, demand: Demand, access: Access) -> int:
        """How many processes of the demand fit at their minimum; the caller checks where it may run."""
        most = self.slots
        if demand.cpu_milli and self.cpu_milli < most * demand.cpu_milli:
            most = self.cpu_milli // demand.cpu_milli
        if demand.memory_mib and self.memory_mib < most * demand.memory_mib:
            most = self.memory_mib // demand.memory_mib
        for kind, low, _ in demand.named:
            if most < 1:
                return 0
            most = min(most, self.free(kind, access) // low)
        if demand.any_gpu:
            most = min(most, self.free(ANY_GPU, access) // demand.units)
        return most if most > 0 else 0

    def take(self, demand: Demand, named: Set[str], access: Access) -> Share:
        """Take the minimum of one process; the caller has checked that it fits.

        `named` are the kinds that the request asks for by name: `gpu` avoids them while it can.
        """
        self.slots -= 1
        self.cpu_milli -= demand.cpu_milli or 0
        self.memory_mib -= demand.memory_mib or 0
        units: list[Unit] = []
        # Named kinds first, or `gpu` could take units that a named need requires.
        for need in (*demand.named, *demand.any_gpu):
            units += self.take_units(need.kind, need.low, named, access)
        return Share(demand.cpu_milli, demand.memory_mib, tuple(units))

    def take_units(self, wanted: str, count: int, named: Set[str], access: Access) -> list[Unit]:
        """Take up to `count` more units of the wanted kind."""
        if not access.closed_units and (wanted != ANY_GPU or len(self.units) == 1):
            return self._take_first(wanted if wanted != ANY_GPU else next(iter(self.units)), count)
        taken: list[Unit] = []
        while len(taken) < count:
            kind = self._best_kind(wanted, named, access)
            if kind is None:
                break
            unit = next(u for u in self.units[kind] if (self.view.id, u) not in access.closed_units)
            taken.append((kind, unit))
            self.remove_unit(kind, unit)
        return taken

    def _take_first(self, kind: str, count: int) -> list[Unit]:
        units = self.units.get(kind, [])
        taken = [(kind, unit) for unit in units[:count]]
        if len(units) > count:
            del units[:count]
        else:
            self.units.pop(kind, None)
        return taken

    def add(self, share: Share, sign: int = 1) -> None:
        """Give back a share; with a negative sign, take it.

        What is given back later is taken first, so that reservations leave what is free now to others.
        """
        self.slots += sign
        self.cpu_milli += sign * (share.cpu_milli or 0)
        self.memory_mib += sign * (share.memory_mib or 0)
        for kind, unit in share.units:
            if sign > 0:
                self.units.setdefault(kind, []).insert(0, unit)
            else:
                self.remove_unit(kind, unit)

    def remove_unit(self, kind: str, unit: str) -> None:
        units = self.units[kind]
        units.remove(unit)
        if not units:
            del self.units[kind]

    def _best_kind(self, wanted: str, named: Set[str], access: Access) -> str | None:
        if wanted != ANY_GPU:
            return wanted if self.free(wanted, access) else None
        # From the most plentiful kind, so that rare ones stay free for requests that name them.
        free = {each: count for each in sorted(self.units) if (count := self.free(each, access))}
        return max(free, key=lambda name: (name not in named, free[name]), default=None)


def list_kinds(nodes: Sequence[FreeCapacity], access: Access) -> list[str]:
    """The kinds of GPUs that the user may use there."""
    return sorted({kind for node in nodes for kind in node.units if node.free(kind, access)})
