"""Nodes: what they offer, who holds it, and for whom it is kept."""

from collections.abc import Sequence

from pit.head.client import Head
from pit.ui import output
from pit.ui.render import records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time
from pit_protocol.answers.nodes import Node, NodeJob, NodeResource
from pit_protocol.job_times import parse_window
from pit_protocol.states import NodeState

HIDDEN = "somebody else's job"
AS_USER = "user"  # each job runs as its user
STYLES = {
    "online": "green",
    "offline": "red",
    "draining": "yellow",
    "maintenance": "yellow",
    "in trouble": "yellow",
}
COLUMNS = (
    Column("NODE", importance=9),
    Column("STATE", styles=STYLES, importance=9),
    Column("FREE SLOTS", importance=2),
    Column("FREE CORES", importance=4),
    Column("FREE MEMORY", importance=3),
    Column("RUNTIME", importance=6),
    Column("RESOURCES", flexible=True, importance=5),
)


def show_nodes(head: Head, as_json: bool) -> None:
    answer = head.nodes()
    if as_json:
        output.show_json(answer)
    else:
        notes = {position: note for position, node in enumerate(answer.nodes) if (note := _note(node))}
        output.show_table(COLUMNS, [Section("", [node_row(node) for node in answer.nodes], notes=notes)])


def show_node(head: Head, name: str, as_json: bool) -> None:
    node = head.node(name)
    if as_json:
        output.show_json(node)
    else:
        output.show(node_text(node))


def node_row(node: Node) -> tuple[str, ...]:
    return (
        sanitize(node.name),
        shown_state(node),
        f"{node.free_slots} of {node.slots}",
        f"{node.free_cores:g} of {node.cores}" if node.cores else "-",
        f"{node.free_memory_mib / 1024:.0f} of {_memory(node.memory_mib)}" if node.memory_mib else "-",
        _runtime(node),
        _kinds(node.resources),
    )


def shown_state(node: Node) -> str:
    """The state, or that the node is in trouble: then it takes no new processes."""
    return "in trouble" if node.state == "online" and node.trouble else sanitize(node.state)


def _note(node: Node) -> str:
    """Why the node takes no new processes, if that is known."""
    if node.state == "online":
        if node.ends_at is not None and not node.trouble:
            where = f"{sanitize(node.host)}, " if node.host else ""
            return f"{where}ends {local_time(node.ends_at)}"
        trouble = f"takes no new processes: {sanitize(node.trouble)}" if node.trouble else ""
        return trouble or (f"maintenance {_window(node)}" if node.maintenance else "")
    if node.state == "offline":
        return f"silent since {local_time(node.since)}"
    return sanitize(node.reason)


def node_text(node: Node) -> str:
    labels = ", ".join(sanitize(f"{name}={value}") for name, value in node.labels.items())
    pairs = [
        ("Node name", sanitize(node.name)),
        ("State", shown_state(node).upper()),
        *([("Reason", sanitize(node.reason))] if node.reason else []),
        *([("Maintenance", _window(node))] if node.maintenance else []),
        ("Since", local_time(node.since) if node.since else "never seen"),
        ("Address", sanitize(node.address) or "-"),
        ("Slots", _slots(node)),
        ("Cores", f"{node.free_cores:g} of {node.cores} free" if node.cores else "-"),
        ("Memory", f"{node.free_memory_mib / 1024:.0f} of {_memory(node.memory_mib)} free"),
        ("Runtime", sanitize(node.runtime)),
        ("Jobs run as", _accounts(node)),
        *([("Trouble", sanitize(node.trouble))] if node.trouble else []),
        ("Labels", labels or "-"),
        ("Groups", sanitize(", ".join(node.groups)) or "-"),
        ("Jobs", "" if node.jobs else "-"),
        *((f"  {job.number or '-'}", _job(job)) for job in node.jobs),
        ("Resources", "" if node.resources else "-"),
    ]
    return "\n".join([records(pairs), *(_resource(resource) for resource in node.resources)])


def _window(node: Node) -> str:
    window = parse_window(node.maintenance)
    return f"from {local_time(window.start)} to {local_time(window.end)}"


def _job(job: NodeJob) -> str:
    return sanitize(f"{job.user}, {job.title}" if job.title is not None else f"a job of {job.user}")


def _resource(resource: NodeResource) -> str:
    names = dict.fromkeys((resource.kind, *resource.aliases))
    known = " or ".join(f'"{sanitize(name)}"' for name in names)
    groups = f", for {sanitize(', '.join(resource.groups))}" if resource.groups else ""
    held = f", held by job {resource.job}" if resource.job is not None else ""
    if not resource.free and not held and not resource.trouble:
        held = f", held by {sanitize(f'a job of {resource.user}') if resource.user else HIDDEN}"
    trouble = f", out of use: it {sanitize(resource.trouble)}" if resource.trouble else ""
    index = resource.index
    return f'  {index}: "{sanitize(resource.model)}" aka {known} (cuda {index}){groups}{held}{trouble}'


def _slots(node: Node) -> str:
    return f"{node.free_slots} of {node.slots} free"


def _runtime(node: Node) -> str:
    """The runtime, and the account that all jobs run as if they do not run as their users."""
    if node.state == NodeState.NEW:  # its worker has not said it yet
        return "-"
    return sanitize(node.runtime if node.run_as == AS_USER else f"{node.runtime} as {node.run_as}")


def _accounts(node: Node) -> str:
    if node.run_as == AS_USER:
        return "their users"
    return sanitize(node.run_as) + (", also if there are several users" if node.shared_account else "")


def _memory(mebibytes: int) -> str:
    return "-" if not mebibytes else f"{mebibytes / 1024:.0f} GiB"


def _kinds(resources: Sequence[NodeResource]) -> str:
    counts: dict[str, list[int]] = {}
    for resource in resources:
        count = counts.setdefault(sanitize(resource.kind), [0, 0, 0, 0])
        count[0] += 1
        count[1] += resource.free
        count[2] += bool(resource.trouble)
        count[3] += resource.free and resource.usable
    return ", ".join(_kind(kind, *count) for kind, count in counts.items()) or "-"


def _kind(name: str, total: int, free: int, faulty: int, mine: int) -> str:
    shown = f"{free} free" if mine == free else f"{mine} free for you"
    return f"{total}:{name} ({shown}{f', {faulty} out of use' if faulty else ''})"
