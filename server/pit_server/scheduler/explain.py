"""Explain in words why a request cannot start."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pit_grammar import Placement, ProcessGroup, Request
from pit_server.scheduler.capacity import EVERYTHING, Access, FreeCapacity, NodeView
from pit_server.scheduler.kinds import ANY_GPU, CPU, MEMORY, SLOT
from pit_server.scheduler.placement import fit
from pit_server.scheduler.reason import Reason, naming

_NONE_ONLINE = "no node is online"
_NO_NETWORK = (
    "no network joins enough of them: a job runs on nodes of one runtime, and containers on several "
    "nodes need an overlay network (`overlay` in worker.toml)"
)
_MAX_NODES = 3  # that a reason names
_CLOSED = " for you; others are reserved for groups that you are no member of"


def describe_shortage(
    request: Request,
    free: Mapping[int, FreeCapacity],
    access: Access = EVERYTHING,
    views: Sequence[NodeView] = (),
) -> Reason | None:
    """Say what is missing to start the request now; None if nothing is. `views` are all nodes."""
    trial = dict(free)
    if fit(request, trial, access) is not None:
        return None
    for group in request.groups:
        there = [node for node in free.values() if node.allows(group, EVERYTHING)]
        if not any(node.allows(group, access) for node in there):
            return Reason(_describe_absence(group, views, access))
        if shortage := _group_shortage(group, there, access, _count_faulty(group, views, access)):
            return shortage
    return Reason("waits for room for all its processes at once")


def add_troubles(
    shortage: Reason, request: Request, views: Iterable[NodeView], access: Access = EVERYTHING
) -> Reason:
    """Append which nodes could take the request if they were not in trouble."""
    faulty = [view for view in views if view.trouble and _is_wanted(view, request, access)]
    if not faulty:
        return shortage
    trouble = _describe_trouble(faulty)
    if shortage.text == _NONE_ONLINE or trouble.startswith(shortage.text):
        return Reason(trouble)
    return shortage._replace(text=f"{shortage.text}; {trouble}")


def _is_wanted(view: NodeView, request: Request, access: Access) -> bool:
    return any(FreeCapacity(view).allows(group, access) for group in request.groups)


def refusal_reason(request: Request, views: Iterable[NodeView], access: Access = EVERYTHING) -> str:
    """Say why even the idle cluster cannot fulfil the user's request; empty if it can."""
    idle = {view.id: FreeCapacity(view) for view in views}
    if not idle:
        return "no node has joined the cluster yet"
    for group in request.groups:
        if reason := _impossible(group, list(idle.values()), access):
            is_closed = access != EVERYTHING and not _impossible(group, list(idle.values()), EVERYTHING)
            return f"{group} cannot be fulfilled: {reason}{_closed(access) if is_closed else ''}"
    if fit(request, idle, access) is None:
        joined = {key: FreeCapacity(replace(node.view, network="")) for key, node in idle.items()}
        if fit(request, joined, access) is not None:
            return f"{request} needs several nodes, and {_NO_NETWORK}"
        closed = "" if access == EVERYTHING else " for you"
        return f"{request} is more than all nodes together have{closed}"
    return ""


def _closed(access: Access) -> str:
    return f" with the {access.runtime} runtime, which the job needs" if access.runtime else _CLOSED


def _describe_trouble(faulty: Sequence[NodeView]) -> str:
    more = f"; and {len(faulty) - 1} more" if len(faulty) > 1 else ""
    return f"node {faulty[0].name} takes no new processes: {faulty[0].trouble}{more}"


def _describe_absence(group: ProcessGroup, views: Sequence[NodeView], access: Access) -> str:
    """Say why none of the nodes where the group may run takes it."""
    wanted = [view for view in views if FreeCapacity(view).allows(group, access)]
    if wanted and all(view.trouble for view in wanted):
        return _describe_trouble(wanted)
    if group.placement is None:
        away = [f"{view.name} is {_state(view)}" for view in wanted if not view.trouble]
        more = [f"and {len(away) - _MAX_NODES} more"] if len(away) > _MAX_NODES else []
        named = ", ".join(away[:_MAX_NODES] + more)
        return f"no node takes new jobs: {named}" if named else _NONE_ONLINE
    states = {_state(view) for view in wanted}
    return f"waits for {group.placement}, which is {states.pop() if len(states) == 1 else 'not online'}"


def _state(view: NodeView) -> str:
    state = f"{'in ' if view.state == 'maintenance' else ''}{view.state}"
    return f"{state} ({view.remark})" if view.remark else state


def _count_faulty(group: ProcessGroup, views: Sequence[NodeView], access: Access) -> Counter[str]:
    """Count the units of each kind that the group could use if they were not in trouble."""
    faulty: Counter[str] = Counter()
    for view in views:
        if view.faulty_units and view.state == "online" and FreeCapacity(view).allows(group, access):
            faulty.update(view.faulty_units)
    faulty[ANY_GPU] = faulty.total()
    return faulty


def _group_shortage(
    group: ProcessGroup, there: list[FreeCapacity], access: Access, faulty: Mapping[str, int]
) -> Reason | None:
    """What the group lacks on the nodes of its placement; some of them may be closed to the user."""
    nodes = [node for node in there if node.allows(group, access)]
    for need in group.gpus:
        wanted = need.low * group.count.low
        free = sum(node.free(need.kind, access) for node in nodes)
        if free < wanted:
            is_shared = sum(node.free(need.kind, EVERYTHING) for node in there) > free
            out_of_use = f", {faulty[need.kind]} out of use" if faulty[need.kind] else ""
            missing = f"needs {wanted} {need.kind}, {_free(free, is_shared)}{out_of_use}"
            return _held(missing, need.kind, nodes, is_some_free=free > 0)
    wanted_cpu = (group.cpu_milli or 0) * group.count.low
    free_cpu = sum(node.cpu_milli for node in nodes)
    if free_cpu < wanted_cpu:
        left = _free(free_cpu / 1000, sum(node.cpu_milli for node in there) > free_cpu)
        missing = f"needs {_plural(wanted_cpu / 1000, 'core')}, {left}"
        return _held(missing, CPU, nodes, is_some_free=free_cpu > 0)
    wanted_memory = (group.memory_mib or 0) * group.count.low
    free_memory = sum(node.memory_mib for node in nodes)
    if free_memory < wanted_memory:
        left = _free(round(free_memory / 1024, 1), sum(node.memory_mib for node in there) > free_memory)
        missing = f"needs {wanted_memory / 1024:g} GiB of memory, {left}"
        return _held(missing, MEMORY, nodes, is_some_free=True)
    slots = sum(node.slots for node in nodes)
    if slots < group.count.low:
        left = _free(slots, sum(node.slots for node in there) > slots)
        return _held(f"needs {_plural(group.count.low, 'slot')}, {left}", SLOT, nodes, is_some_free=slots > 0)
    if not any(node.fits(group, access) for node in nodes):
        running = {job for node in nodes for job in node.holders(SLOT)}
        return naming(
            f"no single node has room for a process {group}" + ("; {jobs} {run} there" if running else ""),
            running,
        )
    return None


def _free(count: float, is_shared: bool) -> str:
    """`is_shared`: more is free, but kept for others."""
    return f"{count:g} free{' for you' if is_shared else ''}"


def _held(missing: str, kind: str, nodes: Iterable[FreeCapacity], *, is_some_free: bool) -> Reason:
    """Add which jobs hold what is missing."""
    holders = {job for node in nodes for job in node.holders(kind)}
    if not holders:
        return Reason(missing)
    return naming(f"{missing}; {{jobs}} {{hold}} {'the others' if is_some_free else 'them'}", holders)


def _impossible(group: ProcessGroup, nodes: list[FreeCapacity], access: Access) -> str:
    allowed = [node for node in nodes if node.allows(group, access)]
    if not allowed:
        return f"there is no node {group.placement}" if group.placement else "no node is open"
    for need in group.gpus:
        most = max(node.free(need.kind, access) for node in allowed)
        if most == 0:
            return _describe_missing(need.kind, group.placement, allowed, nodes, access)
        if most < need.low:
            return f"a process needs {need.low} {need.kind}, no node has more than {most}"
        if (total := sum(node.free(need.kind, access) for node in allowed)) < need.low * group.count.low:
            return f"it needs {need.low * group.count.low} {need.kind}, all nodes together have {total}"
    if not any(node.fits(group, access) for node in allowed):
        most_cpu = max(node.cpu_milli for node in allowed) / 1000
        most_memory = max(node.memory_mib for node in allowed) / 1024
        return f"no node is that large; the largest have {most_cpu:g} cores and {most_memory:.1f} GiB"
    if (slots := sum(node.slots for node in allowed)) < group.count.low:
        return f"it has {group.count.low} processes, and the nodes run at most {slots} at a time"
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
        kinds = _list_kinds((node for node in nodes if node.view.id not in access.closed_nodes), access)
        return f"no node has {a_kind}; the cluster has {kinds or 'no GPUs'}"
    kinds = _list_kinds(allowed, access)
    instead = f"; there is {kinds}" if kinds else ""
    if placement.value is not None:
        return f"no node {placement} has {a_kind}{instead}"
    return f"{placement.name} has no {'GPU' if kind == ANY_GPU else kind}{instead}"


def _list_kinds(nodes: Iterable[FreeCapacity], access: Access) -> str:
    return ", ".join(sorted({kind for node in nodes for kind in node.units if node.free(kind, access)}))


def _plural(count: float, what: str) -> str:
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"
