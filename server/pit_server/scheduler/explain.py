"""Explain in words why a request cannot start."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pit_grammar import Placement, Request
from pit_server.scheduler.capacity import FreeCapacity, NodeView, list_kinds
from pit_server.scheduler.demand import EVERYTHING, Access, Demand, Shape
from pit_server.scheduler.kinds import ANY_GPU, CPU, MEMORY, SLOT
from pit_server.scheduler.node_state import NOBODY
from pit_server.scheduler.placement import Now, place
from pit_server.scheduler.pool import Pool
from pit_server.scheduler.reason import Reason, naming
from pit_server.scheduler.selection import Selection

_NONE_ONLINE = "no node is online"
_NO_NETWORK = (
    "no network joins enough of them: a job runs on nodes of one runtime, and containers on several "
    "nodes need an overlay network (`overlay` in worker.toml)"
)
_MAX_NODES = 3  # that a reason names
_CLOSED = " for you; others are reserved for groups that you are no member of"


class Explainer:
    """Explains why requests wait, after a pass; equal questions about nodes are answered once."""

    def __init__(self, pool: Pool, views: Sequence[NodeView]) -> None:
        self._pool = pool
        self._views = views  # of all nodes, also those that take no jobs
        self._troubled = [view for view in views if view.trouble]
        self._faulty = [view for view in views if view.faulty_units and view.state == "online"]
        self._selections: dict[tuple[Placement | None, int], Selection] = {}

    def explain(self, number: int, shape: Shape) -> Reason:
        """What is missing to start the request now, or who would be delayed by it."""
        missing = self._shortage(shape) or self._no_single_node(shape)
        if missing is None:
            offers = Now(self._pool, shape, sees_bookings=False)
            placed = place(shape, offers, self._pool.networks, grows=False)
            if placed is not None:
                return self._name_delayed(number, shape, {process.node_id for process in placed})
            missing = Reason("waits for room for all its processes at once")
        if shape.avoided:
            missing = missing._replace(text=f"{missing.text}; it failed on {', '.join(shape.avoided)}")
        return add_troubles(missing, shape, self._troubled)

    def _shortage(self, shape: Shape) -> Reason | None:
        for demand in shape.demands:
            selection = self._select(demand.placement, shape.access)
            if not selection.nodes:
                return Reason(_describe_absence(demand, self._views, shape.access))
            faulty = _count_faulty(demand, self._faulty, shape.access) if self._faulty else Counter[str]()
            if shortage := _group_shortage(demand, selection, faulty):
                return shortage
        return None

    def _no_single_node(self, shape: Shape) -> Reason | None:
        offers = Now(self._pool, shape, sees_bookings=False)
        for demand in shape.demands:
            is_hopeless = self._pool.is_hopeless(demand, shape.access, 0.0)
            if is_hopeless or offers.best(demand, 1, {}) is None:
                running = self._select(demand.placement, shape.access).holders(SLOT)
                text = f"no single node has room for a process {demand}"
                return naming(text + ("; {jobs} {run} there" if running else ""), running)
        return None

    def _name_delayed(self, number: int, shape: Shape, nodes: Collection[int]) -> Reason:
        end = self._pool.now + shape.duration_s
        booked = [
            (self._pool.states[node], booking)
            for node in sorted(nodes)
            for booking in self._pool.states[node].booked
            if booking.start < end and booking.job != number
        ]
        delayed = {booking.job for _, booking in booked} - {NOBODY}
        if delayed:
            return naming("would delay {jobs}", sorted(delayed))
        closed = next((state.view.name for state, booking in booked if booking.job == NOBODY), "")
        if not closed:
            return Reason("waits for its turn")
        return Reason(f"would not end before the maintenance of {closed}; a shorter --time lets it start")

    def _select(self, placement: Placement | None, access: Access) -> Selection:
        key = placement, id(access)
        if key not in self._selections:
            self._selections[key] = Selection(self._pool, placement, access)
        return self._selections[key]


def add_troubles(shortage: Reason, shape: Shape, views: Iterable[NodeView]) -> Reason:
    """Append which of these nodes could take the request if they were not in trouble."""
    faulty = [view for view in views if _is_wanted(view, shape)]
    if not faulty:
        return shortage
    trouble = _describe_trouble(faulty)
    if shortage.text == _NONE_ONLINE or trouble.startswith(shortage.text):
        return Reason(trouble)
    return shortage._replace(text=f"{shortage.text}; {trouble}")


def can_avoid(request: Request, access: Access, nodes: Collection[int], views: Iterable[NodeView]) -> bool:
    """Whether nodes that take processes could run the request without these."""
    narrow = replace(access, closed_nodes=access.closed_nodes | frozenset(nodes))
    return not refusal(Shape(request, narrow), Pool(view for view in views if view.is_open))


def refusal_reason(request: Request, views: Iterable[NodeView], access: Access = EVERYTHING) -> str:
    """Say why even the idle cluster cannot fulfil the user's request; empty if it can."""
    return refusal(Shape(request, access), Pool(views))


def refusal(shape: Shape, idle: Pool) -> str:
    """The same for a prepared request and the idle nodes."""
    if not idle.states:
        return "no node has joined the cluster yet"
    if _fits_easily(shape, idle):
        return ""
    offers = Now(idle, shape, sees_bookings=False)
    if place(shape, offers, idle.networks, grows=False) is not None:
        return ""
    nodes = [state.free for state in idle.states.values()]
    for demand in shape.demands:
        if reason := _impossible(demand, nodes, shape.access):
            is_closed = shape.access != EVERYTHING and not _impossible(demand, nodes, EVERYTHING)
            return f"{demand} cannot be fulfilled: {reason}{_closed(shape.access) if is_closed else ''}"
    if place(shape, offers, grows=False) is not None:
        return f"{shape.request} needs several nodes, and {_NO_NETWORK}"
    closed = "" if shape.access == EVERYTHING else " for you"
    return f"{shape.request} is more than all nodes together have{closed}"


def _fits_easily(shape: Shape, idle: Pool) -> bool:
    """Whether the few nodes that are looked at first have room; False says nothing."""
    if len(shape.demands) > 1 or (len(idle.networks) > 1 and shape.max_processes > 1):
        return False
    (demand,), left = shape.demands, shape.demands[0].low
    for state in idle.allowed(demand.placement):
        if state.view.id not in shape.access.closed_nodes:
            left -= state.free.count(demand, shape.access)
        if left <= 0:
            return True
    return False


def _allows(view: NodeView, demand: Demand, access: Access) -> bool:
    if view.id in access.closed_nodes:
        return False
    return demand.placement is None or demand.placement.allows(view.name, view.labels)


def _is_wanted(view: NodeView, shape: Shape) -> bool:
    """Whether the idle node could run a process of the request."""
    idle = FreeCapacity.of(view)
    return any(
        _allows(view, demand, shape.access) and idle.count(demand, shape.access) for demand in shape.demands
    )


def _closed(access: Access) -> str:
    return f" with the {access.runtime} runtime, which the job needs" if access.runtime else _CLOSED


def _describe_trouble(faulty: Sequence[NodeView]) -> str:
    more = f"; and {len(faulty) - 1} more" if len(faulty) > 1 else ""
    return f"node {faulty[0].name} takes no new processes: {faulty[0].trouble}{more}"


def _describe_absence(demand: Demand, views: Sequence[NodeView], access: Access) -> str:
    """Say why none of the nodes where the group may run takes it."""
    wanted = [view for view in views if _allows(view, demand, access)]
    if wanted and all(view.trouble for view in wanted):
        return _describe_trouble(wanted)
    if demand.placement is None:
        away = [f"{view.name} is {_state(view)}" for view in wanted if not view.trouble]
        more = [f"and {len(away) - _MAX_NODES} more"] if len(away) > _MAX_NODES else []
        named = ", ".join(away[:_MAX_NODES] + more)
        return f"no node takes new jobs: {named}" if named else _NONE_ONLINE
    states = {_state(view) for view in wanted}
    return f"waits for {demand.placement}, which is {states.pop() if len(states) == 1 else 'not online'}"


def _state(view: NodeView) -> str:
    state = f"{'in ' if view.state == 'maintenance' else ''}{view.state}"
    return f"{state} ({view.remark})" if view.remark else state


def _count_faulty(demand: Demand, views: Sequence[NodeView], access: Access) -> Counter[str]:
    """Count the units of each kind that the group could use if they were not in trouble."""
    faulty: Counter[str] = Counter()
    for view in views:
        if _allows(view, demand, access):
            faulty.update(view.faulty_units)
    faulty[ANY_GPU] = faulty.total()
    return faulty


def _group_shortage(demand: Demand, selection: Selection, faulty: Mapping[str, int]) -> Reason | None:
    """What the group needs and the nodes of its placement do not have free together."""
    for need in demand.needs:
        wanted = need.low * demand.low
        free = selection.free(need.kind)
        if free < wanted:
            out_of_use = f", {faulty[need.kind]} out of use" if faulty[need.kind] else ""
            left = _free(free, selection.is_shared(need.kind))
            return _held(f"needs {wanted} {need.kind}, {left}{out_of_use}", need.kind, selection, free > 0)
    wanted, free = (demand.cpu_milli or 0) * demand.low, selection.free(CPU)
    if free < wanted:
        left = _free(free / 1000, selection.is_shared(CPU))
        return _held(f"needs {_plural(wanted / 1000, 'core')}, {left}", CPU, selection, free > 0)
    wanted, free = (demand.memory_mib or 0) * demand.low, selection.free(MEMORY)
    if free < wanted:
        left = _free(round(free / 1024, 1), selection.is_shared(MEMORY))
        return _held(f"needs {wanted / 1024:g} GiB of memory, {left}", MEMORY, selection, True)
    if (slots := selection.free(SLOT)) < demand.low:
        left = _free(slots, selection.is_shared(SLOT))
        return _held(f"needs {_plural(demand.low, 'slot')}, {left}", SLOT, selection, slots > 0)
    return None


def _free(count: float, is_shared: bool) -> str:
    """`is_shared`: more is free, but kept for others."""
    return f"{count:g} free{' for you' if is_shared else ''}"


def _held(missing: str, kind: str, selection: Selection, is_some_free: bool) -> Reason:
    """Add which jobs hold what is missing."""
    holders = selection.holders(kind)
    if not holders:
        return Reason(missing)
    return naming(f"{missing}; {{jobs}} {{hold}} {'the others' if is_some_free else 'them'}", holders)


def _impossible(demand: Demand, nodes: list[FreeCapacity], access: Access) -> str:
    allowed = [node for node in nodes if _allows(node.view, demand, access)]
    if not allowed:
        return f"there is no node {demand.placement}" if demand.placement else "no node is open"
    for need in demand.needs:
        most = max(node.free(need.kind, access) for node in allowed)
        if most == 0:
            return _describe_missing(need.kind, demand.placement, allowed, nodes, access)
        if most < need.low:
            return f"a process needs {need.low} {need.kind}, no node has more than {most}"
        if (total := sum(node.free(need.kind, access) for node in allowed)) < need.low * demand.low:
            return f"it needs {need.low * demand.low} {need.kind}, all nodes together have {total}"
    if not any(node.count(demand, access) for node in allowed):
        most_cpu = max(node.cpu_milli for node in allowed) / 1000
        most_memory = max(node.memory_mib for node in allowed) / 1024
        return f"no node is that large; the largest have {most_cpu:g} cores and {most_memory:.1f} GiB"
    if (slots := sum(node.slots for node in allowed)) < demand.low:
        return f"it has {demand.low} processes, and the nodes run at most {slots} at a time"
    return ""


def _describe_missing(
    kind: str,
    placement: Placement | None,
    allowed: Sequence[FreeCapacity],
    nodes: Sequence[FreeCapacity],
    access: Access,
) -> str:
    """Say that no node of the placement has the kind, and what there is instead."""
    a_kind = "a GPU" if kind == ANY_GPU else kind
    if placement is None:
        kinds = list_kinds([node for node in nodes if node.view.id not in access.closed_nodes], access)
        instead = f"the cluster has {', '.join(kinds) or 'no GPUs'}"
        return "no node has a GPU" if kind == ANY_GPU and not kinds else f"no node has {a_kind}; {instead}"
    kinds = list_kinds(allowed, access)
    instead = f"; there is {', '.join(kinds)}" if kinds else ""
    if placement.value is not None:
        return f"no node {placement} has {a_kind}{instead}"
    return f"{placement.name} has no {'GPU' if kind == ANY_GPU else kind}{instead}"


def _plural(count: float, what: str) -> str:
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"
