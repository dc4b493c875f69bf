"""Finding a place for all processes of one job at once, or for none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pit_grammar import ProcessGroup, Request
from pit_server.scheduler.capacity import Room, Share


@dataclass(frozen=True)
class ProcessPlacement:
    group: int
    index: int
    node_id: int
    share: Share


def fit(request: Request, rooms: dict[int, Room]) -> tuple[ProcessPlacement, ...] | None:
    """Place the whole request and take it out of `rooms`; None, and nothing taken, if it does not fit.

    Every group gets its least first; only then do ranges grow, as far as there is room now.
    """
    trial = _Trial(rooms)
    # The hardest to place first: pinned ones, then those that need most.
    order = sorted(range(len(request.groups)), key=lambda i: _hardness(request.groups[i]), reverse=True)
    for index in order:
        for _ in range(request.groups[index].count.low):
            if not trial.add(index, request.groups[index]):
                return None
    for index in order:
        group = request.groups[index]
        for _ in range(group.count.high - group.count.low):
            if not trial.add(index, group):
                break
    trial.grow(request)
    rooms.update(trial.touched)
    return trial.placements()


def _hardness(group: ProcessGroup) -> tuple[bool, int, int, int]:
    return (
        group.placement is not None,
        sum(need.low for need in group.gpus),
        group.cpu_milli or 0,
        group.memory_mib or 0,
    )


class _Trial:
    """Placements on copies of the rooms, made when first touched."""

    def __init__(self, rooms: Mapping[int, Room]) -> None:
        self._rooms = rooms
        self.touched: dict[int, Room] = {}
        self._placed: dict[int, list[ProcessPlacement]] = {}

    def add(self, index: int, group: ProcessGroup) -> bool:
        room = self._choose(group)
        if room is None:
            return False
        placed = self._placed.setdefault(index, [])
        placed.append(ProcessPlacement(index, len(placed), room.view.id, room.take(group)))
        return True

    def grow(self, request: Request) -> None:
        """Give elastic processes more units, up to their most, where they are."""
        for index, placed in self._placed.items():
            for position, placement in enumerate(placed):
                room = self.touched[placement.node_id]
                more = [
                    unit
                    for need in request.groups[index].gpus
                    for unit in room.take_units(need, need.high - need.low)
                ]
                if more:
                    share = replace(placement.share, units=(*placement.share.units, *more))
                    placed[position] = replace(placement, share=share)

    def placements(self) -> tuple[ProcessPlacement, ...]:
        return tuple(p for index in sorted(self._placed) for p in self._placed[index])

    def _choose(self, group: ProcessGroup) -> Room | None:
        """The fitting room with the fewest leftovers, rather one that this job uses already."""
        best: Room | None = None
        best_rank: tuple[bool, int, int, str] | None = None
        for node_id, untouched in self._rooms.items():
            room = self.touched.get(node_id, untouched)
            if not room.fits(group):
                continue
            leftovers = sum(room.free(need.kind) for need in group.gpus) or room.free("gpu")
            rank = (node_id not in self.touched, leftovers, room.slots, room.view.name)
            if best_rank is None or rank < best_rank:
                best, best_rank = room, rank
        if best is not None and best.view.id not in self.touched:
            best = self.touched[best.view.id] = best.copy()
        return best
