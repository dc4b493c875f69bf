"""One pass over the queue: first come, first served, all or nothing, and nobody is overtaken to his harm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pit_grammar import Request
from pit_server.scheduler.capacity import EVERYTHING, Access, NodeView, Room
from pit_server.scheduler.fit import ProcessPlacement, fit
from pit_server.scheduler.lack import describe_lack


class Waiting(NamedTuple):
    """One job of the queue."""

    number: int
    request: Request
    access: Access = EVERYTHING


@dataclass(frozen=True)
class JobPlacement:
    number: int
    processes: tuple[ProcessPlacement, ...]


@dataclass(frozen=True)
class Plan:
    placements: tuple[JobPlacement, ...]
    reasons: Mapping[int, str]  # why each of the others waits


def plan(queue: Iterable[Waiting], nodes: Sequence[NodeView]) -> Plan:
    """Place what fits of the queue, in its order.

    A job that does not fit withholds what it names from all behind it, on every node where it
    might run: they start only if they need nothing that it waits for, so it cannot starve.
    """
    rooms = {node.id: Room(node) for node in nodes}  # what is free for all
    offer = {node.id: Room(node) for node in nodes}  # what those ahead leave to the next
    placements = []
    reasons: dict[int, str] = {}
    # A request that did not fit will not fit later in the pass.
    known: dict[tuple[Request, Access], str] = {}
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
        lack = describe_lack(request, rooms, access)
        reasons[number] = lack or f"waits behind {_ahead(reasons)}"
        known[request, access] = f"waits behind job {number}, which needs the same"
        for group in request.groups:
            for room in offer.values():
                if room.allows(group, access):
                    room.withhold(group, access)
    return Plan(tuple(placements), reasons)


def _ahead(reasons: Mapping[int, str]) -> str:
    numbers = list(reasons)
    return f"job {numbers[0]}" if len(numbers) == 1 else f"job {numbers[0]} and {len(numbers) - 1} more"
