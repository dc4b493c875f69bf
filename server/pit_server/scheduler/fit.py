"""Finding a place for all processes of one job at once, or for none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pit_grammar import ProcessGroup, Request
from pit_server.scheduler.capacity import ANY_GPU, EVERYTHING, Access, Room, Share


@dataclass(frozen=True)
class ProcessPlacement:
    group: int
    index: int
    node_id: int
    share: Share


def fit(
    request: Request, rooms: dict[int, Room], access: Access = EVERYTHING
) -> tuple[ProcessPlacement, ...] | None:
    """Place the whole request and take it out of `rooms`; None, and nothing taken, if it does not fit.

    Every group gets its least first; only then do ranges grow, as far as there is room now.
    """
    trial = _Trial(rooms, request, access)
    # The hardest to place first: pinned ones, then those that need most.
    order = sorted(range(len(request.groups)), key=lambda i: _hardness(request.groups[i]), reverse=True)
    for index in order:
        least = request.groups[index].count.low
        for placed in range(least):
            if not trial.add(index, request.groups[index], least - placed):
                return None
    for index in order:
        group = request.groups[index]
        for _ in range(group.count.high - group.count.low):
            if not trial.add(index, group, 1):
                break
    trial.grow()
    rooms.update(trial.touched)
    return trial.placements()


def _hardness(group: ProcessGroup) -> tuple[int, bool, int, int, int]:
    pinned = 0 if group.placement is None else 1 if group.placement.value is not None else 2
    return (
        pinned,
        all(need.kind != ANY_GPU for need in group.gpus),
        sum(need.low for need in group.gpus),
        group.cpu_milli or 0,
        group.memory_mib or 0,
    )


class _Trial:
    """Placements on copies of the rooms, made when first touched."""

    def __init__(self, rooms: Mapping[int, Room], request: Request, access: Access) -> None:
        self._rooms = rooms
        self._access = access
        self._request = request
        self._named = {need.kind for group in request.groups for need in group.gpus if need.kind != ANY_GPU}
        self.touched: dict[int, Room] = {}
        self._placed: dict[int, list[ProcessPlacement]] = {}

    def add(self, index: int, group: ProcessGroup, left: int) -> bool:
        """Place one process of the group, of which `left` are still to be placed."""
        room = self._choose(group, left)
        if room is None:
            return False
        placed = self._placed.setdefault(index, [])
        share = room.take(group, self._named, self._access)
        placed.append(ProcessPlacement(index, len(placed), room.view.id, share))
        return True

    def grow(self) -> None:
        """Give elastic processes more units, up to their most, where they are."""
        for index, placed in self._placed.items():
            for position, placement in enumerate(placed):
                room = self.touched[placement.node_id]
                more = [
                    unit
                    for need in self._request.groups[index].gpus
                    for unit in room.take_units(need, need.high - need.low, self._named, self._access)
                ]
                if more:
                    share = replace(placement.share, units=(*placement.share.units, *more))
                    placed[position] = replace(placement, share=share)

    def placements(self) -> tuple[ProcessPlacement, ...]:
        return tuple(p for index in sorted(self._placed) for p in self._placed[index])

    def _choose(self, group: ProcessGroup, left: int) -> Room | None:
        """The best room for one more process, of `left` that are still to be placed.

        Rather one that this job uses already; else the tightest that holds all that are left; else
        the one that holds most: so a job is on as few nodes as can be.
        """
        access = self._access
        best: Room | None = None
        best_rank: tuple[bool, int, int, int, str] | None = None
        for node_id, untouched in self._rooms.items():
            room = self.touched.get(node_id, untouched)
            capacity = min(room.capacity(group, access), left)
            if capacity == 0:
                continue
            leftovers = sum(room.free(need.kind, access) for need in group.gpus) or room.free(ANY_GPU, access)
            rank = (node_id not in self.touched, left - capacity, leftovers, room.slots, room.view.name)
            if best_rank is None or rank < best_rank:
                best, best_rank = room, rank
        if best is not None and best.view.id not in self.touched:
            best = self.touched[best.view.id] = best.copy()
        return best
