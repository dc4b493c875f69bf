"""Some nodes, and what they have together: the answers that reasons are made of."""

from pit_grammar import Placement
from pit_server.scheduler.demand import EVERYTHING, Access
from pit_server.scheduler.kinds import AMOUNTS
from pit_server.scheduler.node_state import NodeState
from pit_server.scheduler.pool import Pool


class Selection:
    """The nodes that one placement allows, as one user may use them; everything is counted once."""

    def __init__(self, pool: Pool, placement: Placement | None, access: Access) -> None:
        self._pool = pool
        self._access = access
        self._is_all = placement is None and access == EVERYTHING  # what the pool has counted already
        self._there = pool.allowed(placement)
        self.nodes = [state for state in self._there if state.view.id not in access.closed_nodes]
        self._free: dict[str, int] = {}
        self._shared: dict[str, bool] = {}
        self._holders: dict[str, tuple[int, ...]] = {}

    def free(self, kind: str) -> int:
        """What is free of the kind and open to the user."""
        if self._is_all:
            return self._pool.totals[kind]
        if kind not in self._free:
            self._free[kind] = sum(_free(state, kind, self._access) for state in self.nodes)
        return self._free[kind]

    def is_shared(self, kind: str) -> bool:
        """Whether more of it is free, but kept for others."""
        if self._is_all:
            return False
        if kind not in self._shared:
            everything = sum(_free(state, kind, EVERYTHING) for state in self._there)
            self._shared[kind] = everything > self.free(kind)
        return self._shared[kind]

    def holders(self, kind: str) -> tuple[int, ...]:
        """The jobs that hold some of the kind, sorted; for any GPU, of all kinds of GPUs."""
        if kind not in self._holders:
            if self._is_all:
                jobs = set(self._pool.holders[kind])
            else:
                jobs = {held.job for state in self.nodes for held in state.held if held.share.amount(kind)}
            self._holders[kind] = tuple(sorted(jobs))
        return self._holders[kind]


def _free(state: NodeState, kind: str, access: Access) -> int:
    return state.free.amount(kind) if kind in AMOUNTS else state.free.free(kind, access)
