"""The capacity of nodes as values, and what is left of it during one scheduling pass."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from pit_grammar import Need, ProcessGroup
from pit_server.scheduler.kinds import AMOUNTS, ANY_GPU, CPU, MEMORY, SLOT


@dataclass(frozen=True)
class Access:
    """What one user may not use: whole nodes, and single units of other nodes."""

    closed_nodes: frozenset[int] = frozenset()
    closed_units: frozenset[tuple[int, str]] = frozenset()  # (node's id, unit)
    runtime: str = ""  # that the job needs, if that closes nodes


EVERYTHING = Access()


@dataclass(frozen=True)
class NodeView:
    """What one node offers at one moment."""

    id: int
    name: str
    slots: int
    cpu_milli: int
    memory_mib: int
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # kind -> units
    labels: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""  # why it takes no new processes though it is online
    state: str = "online"  # as shown to users
    faulty_units: Mapping[str, int] = field(default_factory=dict)  # kind -> how many units are in trouble
    holders: Mapping[str, Set[int]] = field(default_factory=dict)  # kind, also cpu, mem and slots -> jobs
    remark: str = ""  # why its admin took it out of service
    network: str = ""  # all processes of a job are on nodes with the same

    @property
    def is_open(self) -> bool:
        """Whether it takes new processes."""
        return self.state == "online" and not self.trouble


@dataclass(frozen=True)
class Share:
    """What one process gets of its node."""

    cpu_milli: int | None
    memory_mib: int | None
    units: tuple[tuple[str, str], ...]  # (kind, unit)

    @property
    def kinds(self) -> set[str]:
        """What it takes something of, as a node's holders name it."""
        amounts = ((CPU, self.cpu_milli), (MEMORY, self.memory_mib), (SLOT, 1))
        return {kind for kind, _ in self.units} | {kind for kind, amount in amounts if amount}


class FreeCapacity:
    """What is left of a node; each placed process takes its share."""

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.slots = view.slots
        self.cpu_milli = view.cpu_milli
        self.memory_mib = view.memory_mib
        self.units = {kind: list(units) for kind, units in view.units.items() if units}
        self.placed: dict[str, set[int]] = {}  # jobs placed in this pass, like the view's holders

    def copy(self) -> "FreeCapacity":
        copy = FreeCapacity.__new__(FreeCapacity)
        copy.view, copy.slots = self.view, self.slots
        copy.cpu_milli, copy.memory_mib = self.cpu_milli, self.memory_mib
        copy.units = {kind: list(units) for kind, units in self.units.items()}
        copy.placed = self.placed
        return copy

    def allows(self, group: ProcessGroup, access: Access) -> bool:
        """Whether the user may use this node and the group's placement allows it."""
        if self.view.id in access.closed_nodes:
            return False
        return group.placement is None or group.placement.allows(self.view.name, self.view.labels)

    def free(self, kind: str, access: Access) -> int:
        """Count the units of the kind that are left and that the user may use."""
        if kind == ANY_GPU:
            return sum(self.free(each, access) for each in self.units)
        units = self.units.get(kind, ())
        if not access.closed_units:
            return len(units)
        return sum((self.view.id, unit) not in access.closed_units for unit in units)

    def fits(self, group: ProcessGroup, access: Access) -> bool:
        """Whether the minimum of one process of the group fits into what is left."""
        if self.slots < 1 or not self.allows(group, access):
            return False
        if (group.cpu_milli or 0) > self.cpu_milli or (group.memory_mib or 0) > self.memory_mib:
            return False
        named = 0
        for need in group.gpus:
            if need.kind != ANY_GPU:
                named += need.low
                if self.free(need.kind, access) < need.low:
                    return False
        any_gpu = sum(need.low for need in group.gpus if need.kind == ANY_GPU)
        return any_gpu == 0 or self.free(ANY_GPU, access) >= named + any_gpu

    def count_fitting(self, group: ProcessGroup, access: Access) -> int:
        """Estimate how many processes of the group fit at their minimum."""
        if not self.fits(group, access):
            return 0
        limits = [self.slots, *(self.free(need.kind, access) // need.low for need in group.gpus)]
        if group.cpu_milli:
            limits.append(self.cpu_milli // group.cpu_milli)
        if group.memory_mib:
            limits.append(self.memory_mib // group.memory_mib)
        return min(limits)

    def take(self, group: ProcessGroup, named: Set[str], access: Access) -> Share:
        """Take the minimum of one process of the group; the caller has checked `fits`.

        `named` are the kinds that the request asks for by name: `gpu` avoids them while it can.
        """
        self.slots -= 1
        self.cpu_milli -= group.cpu_milli or 0
        self.memory_mib -= group.memory_mib or 0
        units: list[tuple[str, str]] = []
        # Named kinds first, or `gpu` could take units that a named need requires.
        for need in sorted(group.gpus, key=lambda need: need.kind == ANY_GPU):
            units += self.take_units(need, need.low, named, access)
        return Share(group.cpu_milli, group.memory_mib, tuple(units))

    def take_units(self, need: Need, count: int, named: Set[str], access: Access) -> list[tuple[str, str]]:
        """Take up to `count` more units for the need."""
        taken: list[tuple[str, str]] = []
        while len(taken) < count:
            kind = self._best_kind(need.kind, named, access)
            if kind is None:
                break
            unit = self._open_units(kind, access)[0]
            taken.append((kind, unit))
            self._remove(kind, unit)
        return taken

    def withhold(self, group: ProcessGroup, access: Access) -> None:
        """Keep what a waiting job names and may use, and a slot for each of its processes."""
        self.slots -= min(self.slots, group.count.low)
        for need in group.gpus:
            for kind in list(self.units) if need.kind == ANY_GPU else [need.kind]:
                for unit in self._open_units(kind, access):
                    self._remove(kind, unit)
        if group.cpu_milli:
            self.cpu_milli = 0
        if group.memory_mib:
            self.memory_mib = 0

    def holders(self, kind: str) -> Set[int]:
        """The jobs that hold some of the kind here; for any GPU, of all kinds of GPUs."""
        if kind == ANY_GPU:
            kinds = (self.view.holders.keys() | self.placed.keys()) - AMOUNTS
            return {job for each in kinds for job in self.holders(each)}
        return {*self.view.holders.get(kind, ()), *self.placed.get(kind, ())}

    def subtract(self, share: Share, job: int) -> None:
        """Take a share that was placed for the job on a copy of this capacity."""
        self.slots -= 1
        for held in share.kinds:
            self.placed.setdefault(held, set()).add(job)
        self.cpu_milli -= share.cpu_milli or 0
        self.memory_mib -= share.memory_mib or 0
        for kind, unit in share.units:
            self._remove(kind, unit)

    def _open_units(self, kind: str, access: Access) -> list[str]:
        units = self.units.get(kind, [])
        return [unit for unit in units if (self.view.id, unit) not in access.closed_units]

    def _remove(self, kind: str, unit: str) -> None:
        self.units[kind].remove(unit)
        if not self.units[kind]:
            del self.units[kind]

    def _best_kind(self, kind: str, named: Set[str], access: Access) -> str | None:
        if kind != ANY_GPU:
            return kind if self.free(kind, access) else None
        # From the most plentiful kind, so that rare ones stay free for requests that name them.
        free = {each: count for each in sorted(self.units) if (count := self.free(each, access))}
        return max(free, key=lambda name: (name not in named, free[name]), default=None)
