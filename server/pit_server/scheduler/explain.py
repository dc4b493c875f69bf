"""Explain in words why a request cannot start."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pit_grammar import ProcessGroup, Request
from pit_server.scheduler.capacity import EVERYTHING, Access, FreeCapacity, NodeView
from pit_server.scheduler.kinds import ANY_GPU
from pit_server.scheduler.placement import fit

_NONE_ONLINE = "no node is online"
_CLOSED = " for you; others are reserved for groups that you are no member of"


def describe_shortage(
    request: Request,
    free: Mapping[int, FreeCapacity],
    access: Access = EVERYTHING,
    views: Sequence[NodeView] = (),
) -> str:
    """Say what is missing to start the request now; empty if nothing is. `views` are all nodes."""
    trial = dict(free)
    if fit(request, trial, access) is not None:
        return ""
    for group in request.groups:
        allowed = [node for node in free.values() if node.allows(group, access)]
        faulty = _count_faulty(group, views, access)
        shortage = (
            _group_shortage(group, allowed, access, faulty)
            if allowed
            else _describe_absence(group, views, access)
        )
        if shortage:
            return shortage
    return "waits for room for all its processes at once"


def add_troubles(
    shortage: str, request: Request, views: Iterable[NodeView], access: Access = EVERYTHING
) -> str:
    """Append which nodes could take the request if they were not in trouble."""
    faulty = [view for view in views if view.trouble and _is_wanted(view, request, access)]
    if not faulty:
        return shortage
    trouble = _describe_trouble(faulty)
    return trouble if shortage == _NONE_ONLINE or trouble.startswith(shortage) else f"{shortage}; {trouble}"


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
            return f"{group} cannot be fulfilled: {reason}{_CLOSED if is_closed else ''}"
    if fit(request, idle, access) is None:
        closed = "" if access == EVERYTHING else " for you"
        return f"{request} is more than all nodes together have{closed}"
    return ""


def _describe_trouble(faulty: Sequence[NodeView]) -> str:
    more = f"; and {len(faulty) - 1} more" if len(faulty) > 1 else ""
    return f"node {faulty[0].name} takes no new processes: {faulty[0].trouble}{more}"


def _describe_absence(group: ProcessGroup, views: Sequence[NodeView], access: Access) -> str:
    """Say why none of the nodes where the group may run takes it."""
    if group.placement is None:
        return _NONE_ONLINE
    wanted = [view for view in views if FreeCapacity(view).allows(group, access)]
    if wanted and all(view.trouble for view in wanted):
        return _describe_trouble(wanted)
    states = {view.state for view in wanted}
    state = states.pop() if len(states) == 1 else "not online"
    return f"waits for {group.placement}, which is {'in ' if state == 'maintenance' else ''}{state}"


def _count_faulty(group: ProcessGroup, views: Sequence[NodeView], access: Access) -> Counter[str]:
    """Count the units of each kind that the group could use if they were not in trouble."""
    faulty: Counter[str] = Counter()
    for view in views:
        if view.faulty_units and view.state == "online" and FreeCapacity(view).allows(group, access):
            faulty.update(view.faulty_units)
    faulty[ANY_GPU] = faulty.total()
    return faulty


def _group_shortage(
    group: ProcessGroup, nodes: list[FreeCapacity], access: Access, faulty: Mapping[str, int]
) -> str:
    for need in group.gpus:
        wanted = need.low * group.count.low
        free = sum(node.free(need.kind, access) for node in nodes)
        if free < wanted:
            out_of_use = f", {faulty[need.kind]} out of use" if faulty[need.kind] else ""
            return f"needs {wanted} {need.kind}, {free} free{out_of_use}"
    wanted_cpu = (group.cpu_milli or 0) * group.count.low
    free_cpu = sum(node.cpu_milli for node in nodes)
    if free_cpu < wanted_cpu:
        return f"needs {_plural(wanted_cpu / 1000, 'core')}, {free_cpu / 1000:g} free"
    wanted_memory = (group.memory_mib or 0) * group.count.low
    free_memory = sum(node.memory_mib for node in nodes)
    if free_memory < wanted_memory:
        return f"needs {wanted_memory / 1024:g} GiB of memory, {free_memory / 1024:g} free"
    slots = sum(node.slots for node in nodes)
    if slots < group.count.low:
        return f"needs {_plural(group.count.low, 'slot')}, {slots} free"
    if not any(node.fits(group, access) for node in nodes):
        return f"no single node has room for a process {group}"
    return ""


def _impossible(group: ProcessGroup, nodes: list[FreeCapacity], access: Access) -> str:
    allowed = [node for node in nodes if node.allows(group, access)]
    if not allowed:
        return f"there is no node {group.placement}" if group.placement else "no node is open"
    for need in group.gpus:
        most = max(node.free(need.kind, access) for node in allowed)
        if most == 0:
            mine = [node for node in nodes if node.view.id not in access.closed_nodes]
            kinds = sorted({kind for node in mine for kind in node.units if node.free(kind, access)})
            offered = f"the cluster has {', '.join(kinds)}" if kinds else "the cluster has no GPUs"
            return f"no node has {need.kind}; {offered}"
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


def _plural(count: float, what: str) -> str:
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"
