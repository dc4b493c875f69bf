"""Some nodes, and what they have together: the answers that reasons are made of."""

from collections.abc import Sequence

from pit_server.scheduler.demand import EVERYTHING, Access
from pit_server.scheduler.kinds import AMOUNTS
from pit_server.scheduler.node_state import NodeState


class Selection:
    """The nodes that one placement allows, as one user may use them; everything is counted once."""

    def __init__(self, there: Sequence[NodeState], access: Access) -> None:
        self._there = there
        self._access = access
        self.nodes = [state for state in there if state.view.id not in access.closed_nodes]
        self._free: dict[str, int] = {}
        self._shared: dict[str, bool] = {}
        self._holders: dict[str, tuple[int, ...]] = {}

    def free(self, kind: str) -> int:
        """What is free of the kind and open to the user."""
        if kind not in self._free:
            self._free[kind] = sum(_free(state, kind, self._access) for state in self.nodes)
        return self._free[kind]

    def is_shared(self, kind: str) -> bool:
        """Whether more of it is free, but kept for others."""
        if kind not in self._shared:
            everything = sum(_free(state, kind, EVERYTHING) for state in self._there)
            self._shared[kind] = everything > self.free(kind)
        return self._shared[kind]

    def holders(self, kind: str) -> tuple[int, ...]:
        """The jobs that hold some of the kind, sorted; for any GPU, of all kinds of GPUs."""
        if kind not in self._holders:
            jobs = {held.job for state in self.nodes for held in state.held if held.share.amount(kind)}
            self._holders[kind] = tuple(sorted(jobs))
        return self._holders[kind]


def _free(state: NodeState, kind: str, access: Access) -> int:
    return state.free.amount(kind) if kind in AMOUNTS else state.free.free(kind, access)
