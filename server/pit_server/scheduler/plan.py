"""One pass over the queue: first come, first served, all or nothing, and nobody is overtaken to his harm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pit_grammar import Request
from pit_server.scheduler.capacity import EVERYTHING, Access, NodeView, Room
from pit_server.scheduler.fit import ProcessPlacement, fit
from pit_server.scheduler.lack import add_troubles, describe_lack, refuse_reason


class Waiting(NamedTuple):
    """One job of the queue."""

    number: int
    request: Request
    access: Access = EVERYTHING


@dataclass(frozen=True)
class JobPlacement:
    number: int
    processes: tuple[ProcessPlacement, ...]


class Reason(NamedTuple):
    """Why a job waits; `{job}` in the text stands for the one it waits behind, which not all may know."""

    text: str
    behind: int | None = None

    def tell(self, *, names_job: bool = True) -> str:
        return self.text.replace("{job}", f"job {self.behind}" if names_job else "somebody else's job")


@dataclass(frozen=True)
class Plan:
    placements: tuple[JobPlacement, ...]
    reasons: Mapping[int, Reason]  # why each of the others waits


def plan(queue: Iterable[Waiting], nodes: Sequence[NodeView], idle: Sequence[NodeView] = ()) -> Plan:
    """Place what fits of the queue, in its order; `idle` is what all nodes had if nothing ran.

    A job that does not fit withholds what it names from all behind it, on every node where it
    might run: they start only if they need nothing that it waits for, so it cannot starve.
    """
    rooms = {node.id: Room(node) for node in nodes}  # what is free for all
    offer = {node.id: Room(node) for node in nodes}  # what those ahead leave to the next
    placements = []
    reasons: dict[int, Reason] = {}
    # A request that did not fit will not fit later in the pass.
    known: dict[tuple[Request, Access], Reason] = {}
    for number, request, access in queue:
        if (request, access) in known:
            reasons[number] = known[request, access]
            continue
        placed = fit(request, offer, access)
        if placed is not None:
            for placement in placed:
                rooms[placement.node_id].give(placement.share)
            placements.append(JobPlacement(number, placed))
            continue
        # What became impossible since it was accepted is told as such.
        impossible = refuse_reason(request, idle, access) if idle else ""
        lack = impossible or describe_lack(request, rooms, access, idle)
        reasons[number] = Reason(add_troubles(lack, request, idle, access)) if lack else _behind(reasons)
        known[request, access] = Reason("waits behind {job}, which needs the same", number)
        for group in request.groups:
            for room in offer.values():
                if room.allows(group, access):
                    room.withhold(group, access)
    return Plan(tuple(placements), reasons)


def _behind(reasons: Mapping[int, Reason]) -> Reason:
    numbers = list(reasons)
    more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
    return Reason(f"waits behind {{job}}{more}", numbers[0])
