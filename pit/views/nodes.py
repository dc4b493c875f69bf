"""Nodes: what they offer, who holds it, and for whom it is kept."""

from collections.abc import Sequence

from pit.head.client import Head
from pit.ui import output
from pit.ui.render import records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time
from pit_protocol.answers.nodes import Node, NodeResource

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
    Column("SLOTS"),
    Column("CORES", right=True),
    Column("MEMORY", right=True),
    Column("RUNTIME", importance=6),
    Column("RESOURCES", flexible=True, importance=5),
)


def show_nodes(head: Head, as_json: bool) -> None:
    answer = head.nodes()
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [node_row(node) for node in answer.nodes])])


def show_node(head: Head, name: str, as_json: bool) -> None:
    node = head.node(name)
    if as_json:
        output.show_json(node)
    else:
        output.show(node_text(node))


def node_row(node: Node) -> tuple[str, ...]:
    return (
        sanitize(node.name),
        "in trouble" if node.state == "online" and node.trouble else sanitize(node.state),
        _slots(node),
        str(node.cores or "-"),
        _memory(node.memory_mib),
        _runtime(node),
        _kinds(node.resources),
    )


def node_text(node: Node) -> str:
    labels = ", ".join(sanitize(f"{name}={value}") for name, value in node.labels.items())
    pairs = [
        ("Node name", sanitize(node.name)),
        ("State", sanitize(node.state).upper()),
        ("Since", local_time(node.since) if node.since else "never seen"),
        ("Address", sanitize(node.address) or "-"),
        ("Slots", _slots(node)),
        ("Cores", str(node.cores or "-")),
        ("Memory", _memory(node.memory_mib)),
        ("Runtime", sanitize(node.runtime)),
        ("Jobs run as", _accounts(node)),
        *([("Trouble", sanitize(node.trouble))] if node.trouble else []),
        ("Labels", labels or "-"),
        ("Groups", sanitize(", ".join(node.groups)) or "-"),
        ("Resources", "" if node.resources else "-"),
    ]
    return "\n".join([records(pairs), *(_resource(resource) for resource in node.resources)])


def _resource(resource: NodeResource) -> str:
    names = dict.fromkeys((resource.kind, *resource.aliases))
    known = " or ".join(f'"{sanitize(name)}"' for name in names)
    groups = f", for {sanitize(', '.join(resource.groups))}" if resource.groups else ""
    held = f", held by job {resource.job}" if resource.job is not None else ""
    if not resource.free and not held and not resource.trouble:
        held = ", held by somebody else's job"
    trouble = f", out of use: it {sanitize(resource.trouble)}" if resource.trouble else ""
    index = resource.index
    return f'  {index}: "{sanitize(resource.model)}" aka {known} (cuda {index}){groups}{held}{trouble}'


def _slots(node: Node) -> str:
    return f"{node.free_slots} of {node.slots} free"


def _runtime(node: Node) -> str:
    """The runtime, and the account that all jobs run as if they do not run as their users."""
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
        count = counts.setdefault(sanitize(resource.kind), [0, 0, 0])
        count[0] += 1
        count[1] += resource.free
        count[2] += bool(resource.trouble)
    return ", ".join(_kind(kind, *count) for kind, count in counts.items()) or "-"


def _kind(name: str, total: int, free: int, faulty: int) -> str:
    return f"{total}:{name} ({free} free{f', {faulty} out of use' if faulty else ''})"
