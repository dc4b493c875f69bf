"""Saying in words what a request lacks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pit_grammar import ProcessGroup, Request
from pit_server.scheduler.capacity import ANY_GPU, EVERYTHING, Access, NodeView, Room
from pit_server.scheduler.fit import fit

_NONE_ONLINE = "no node is online"
_CLOSED = " for you; others are kept for groups that you are no member of"


def describe_lack(
    request: Request, rooms: Mapping[int, Room], access: Access = EVERYTHING, nodes: Sequence[NodeView] = ()
) -> str:
    """What is missing to start the request now; empty if nothing is. `nodes` are all that there are."""
    trial = dict(rooms)
    if fit(request, trial, access) is not None:
        return ""
    for group in request.groups:
        allowed = [room for room in rooms.values() if room.allows(group, access)]
        sick = _count_sick(group, nodes, access)
        lack = (
            _group_lack(group, allowed, access, sick) if allowed else _describe_absence(group, nodes, access)
        )
        if lack:
            return lack
    return "waits for room for all its processes at once"


def add_troubles(lack: str, request: Request, nodes: Iterable[NodeView], access: Access = EVERYTHING) -> str:
    """The lack, and which nodes would be there for the request were they not in trouble."""
    sick = [node for node in nodes if node.trouble and _is_wanted(node, request, access)]
    if not sick:
        return lack
    told = _tell_trouble(sick)
    return told if lack == _NONE_ONLINE or told.startswith(lack) else f"{lack}; {told}"


def _is_wanted(node: NodeView, request: Request, access: Access) -> bool:
    return any(Room(node).allows(group, access) for group in request.groups)


def refuse_reason(request: Request, nodes: Iterable[NodeView], access: Access = EVERYTHING) -> str:
    """Why the cluster could not fulfil the user's request even when idle; empty if it could."""
    rooms = {node.id: Room(node) for node in nodes}
    if not rooms:
        return "no node has joined the cluster yet"
    for group in request.groups:
        if reason := _impossible(group, list(rooms.values()), access):
            closed = (
                ""
                if access == EVERYTHING or _impossible(group, list(rooms.values()), EVERYTHING)
                else _CLOSED
            )
            return f"{group} cannot be fulfilled: {reason}{closed}"
    if fit(request, rooms, access) is None:
        closed = "" if access == EVERYTHING else " for you"
        return f"{request} is more than all nodes together have{closed}"
    return ""


def _tell_trouble(sick: Sequence[NodeView]) -> str:
    more = f"; and {len(sick) - 1} more" if len(sick) > 1 else ""
    return f"node {sick[0].name} takes no new processes: {sick[0].trouble}{more}"


def _describe_absence(group: ProcessGroup, nodes: Sequence[NodeView], access: Access) -> str:
    """Why none of the nodes where the group may run takes it."""
    if group.placement is None:
        return _NONE_ONLINE
    wanted = [node for node in nodes if Room(node).allows(group, access)]
    if wanted and all(node.trouble for node in wanted):
        return _tell_trouble(wanted)
    states = {node.state for node in wanted}
    state = states.pop() if len(states) == 1 else "not online"
    return f"waits for {group.placement}, which is {'in ' if state == 'maintenance' else ''}{state}"


def _count_sick(group: ProcessGroup, nodes: Sequence[NodeView], access: Access) -> Counter[str]:
    """How many units of each kind would be there for the group were they not in trouble."""
    sick: Counter[str] = Counter()
    for node in nodes:
        if node.sick and node.state == "online" and Room(node).allows(group, access):
            sick.update(node.sick)
    sick[ANY_GPU] = sick.total()
    return sick


def _group_lack(group: ProcessGroup, rooms: list[Room], access: Access, sick: Mapping[str, int]) -> str:
    for need in group.gpus:
        wanted = need.low * group.count.low
        free = sum(room.free(need.kind, access) for room in rooms)
        if free < wanted:
            out_of_use = f", {sick[need.kind]} out of use" if sick[need.kind] else ""
            return f"needs {wanted} {need.kind}, {free} free{out_of_use}"
    wanted_cpu = (group.cpu_milli or 0) * group.count.low
    free_cpu = sum(room.cpu_milli for room in rooms)
    if free_cpu < wanted_cpu:
        return f"needs {_some(wanted_cpu / 1000, 'core')}, {free_cpu / 1000:g} free"
    wanted_memory = (group.memory_mib or 0) * group.count.low
    free_memory = sum(room.memory_mib for room in rooms)
    if free_memory < wanted_memory:
        return f"needs {wanted_memory / 1024:g} GiB of memory, {free_memory / 1024:g} free"
    slots = sum(room.slots for room in rooms)
    if slots < group.count.low:
        return f"needs {_some(group.count.low, 'slot')}, {slots} free"
    if not any(room.fits(group, access) for room in rooms):
        return f"no single node has room for a process {group}"
    return ""


def _impossible(group: ProcessGroup, rooms: list[Room], access: Access) -> str:
    allowed = [room for room in rooms if room.allows(group, access)]
    if not allowed:
        return f"there is no node {group.placement}" if group.placement else "no node is open"
    for need in group.gpus:
        most = max(room.free(need.kind, access) for room in allowed)
        if most == 0:
            mine = [room for room in rooms if room.view.id not in access.closed_nodes]
            kinds = sorted({kind for room in mine for kind in room.units if room.free(kind, access)})
            offered = f"the cluster has {', '.join(kinds)}" if kinds else "the cluster has no GPUs"
            return f"no node has {need.kind}; {offered}"
        if most < need.low:
            return f"a process needs {need.low} {need.kind}, no node has more than {most}"
        if (every := sum(room.free(need.kind, access) for room in allowed)) < need.low * group.count.low:
            return f"it needs {need.low * group.count.low} {need.kind}, all nodes together have {every}"
    if not any(room.fits(group, access) for room in allowed):
        most_cpu = max(room.cpu_milli for room in allowed) / 1000
        most_memory = max(room.memory_mib for room in allowed) / 1024
        return f"no node is that large; the largest have {most_cpu:g} cores and {most_memory:.1f} GiB"
    if (slots := sum(room.slots for room in allowed)) < group.count.low:
        return f"it has {group.count.low} processes, and the nodes run at most {slots} at a time"
    return ""


def _some(count: float, what: str) -> str:
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"
