"""One pass over the queue: first come, first served, all or nothing, and nobody is overtaken to his harm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pit_grammar import Request
from pit_server.scheduler.capacity import NodeView, Room
from pit_server.scheduler.fit import ProcessPlacement, fit
from pit_server.scheduler.lack import describe_lack


@dataclass(frozen=True)
class JobPlacement:
    number: int
    processes: tuple[ProcessPlacement, ...]


@dataclass(frozen=True)
class Plan:
    placements: tuple[JobPlacement, ...]
    reasons: Mapping[int, str]  # why each of the others waits


def plan(queue: Iterable[tuple[int, Request]], nodes: Sequence[NodeView]) -> Plan:
    """Place what fits of the queue, in its order.

    A job that does not fit withholds what it names from all behind it, on every node where it
    might run: they start only if they need nothing that it waits for, so it cannot starve.
    """
    rooms = {node.id: Room(node) for node in nodes}  # what is free for all
    offer = {node.id: Room(node) for node in nodes}  # what those ahead leave to the next
    placements = []
    reasons: dict[int, str] = {}
    known: dict[Request, str] = {}  # a request that did not fit will not fit later in the pass
    for number, request in queue:
        if request in known:
            reasons[number] = known[request]
            continue
        placed = fit(request, offer)
        if placed is not None:
            _take_over(rooms, placed)
            placements.append(JobPlacement(number, placed))
            continue
        lack = describe_lack(request, rooms)
        reasons[number] = lack or f"waits behind {_ahead(reasons)}"
        known[request] = f"waits behind job {number}, which needs the same"
        for group in request.groups:
            for room in offer.values():
                if room.allows(group):
                    room.withhold(group)
    return Plan(tuple(placements), reasons)


def _take_over(rooms: dict[int, Room], placed: tuple[ProcessPlacement, ...]) -> None:
    """Take the same out of what is free for all."""
    for placement in placed:
        room, share = rooms[placement.node_id], placement.share
        room.slots -= 1
        room.cpu_milli -= share.cpu_milli or 0
        room.memory_mib -= share.memory_mib or 0
        for kind, unit in share.units:
            room.units[kind].remove(unit)
            if not room.units[kind]:
                del room.units[kind]


def _ahead(reasons: Mapping[int, str]) -> str:
    numbers = list(reasons)
    return f"job {numbers[0]}" if len(numbers) == 1 else f"job {numbers[0]} and {len(numbers) - 1} more"
