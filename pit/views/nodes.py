"""Nodes: what they offer, who holds it, and for whom it is kept."""

from collections.abc import Mapping, Sequence
from typing import Any

from pit import output
from pit.entities import Entity
from pit.head import Head
from pit.render import records
from pit.safe import safe
from pit.tables import Column, Section
from pit.times import local_time

Json = Mapping[str, Any]

STYLES = {
    "online": "green",
    "offline": "red",
    "draining": "yellow",
    "maintenance": "yellow",
    "in trouble": "yellow",
}
COLUMNS = (
    Column("NODE"),
    Column("STATE", styles=STYLES),
    Column("SLOTS"),
    Column("CORES", right=True),
    Column("MEMORY", right=True),
    Column("RESOURCES", flexible=True),
)


def show_nodes(head: Head, as_json: bool) -> None:
    answer = head.list_all("nodes")
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(COLUMNS, [Section("", [node_row(node) for node in answer["nodes"]])])


def show_node(head: Head, name: str, as_json: bool) -> None:
    node = head.record(Entity("node", name).path)
    if as_json:
        output.show_json(node)
    else:
        output.show(node_text(node))


def node_row(node: Json) -> tuple[str, ...]:
    return (
        safe(node["name"]),
        "in trouble" if node["state"] == "online" and node.get("trouble") else safe(node["state"]),
        _slots(node),
        _number(node["cores"]),
        _memory(node["memory_mib"]),
        _kinds(node["resources"]),
    )


def node_text(node: Json) -> str:
    labels = ", ".join(safe(f"{name}={value}") for name, value in node["labels"].items())
    pairs = [
        ("Node name", safe(node["name"])),
        ("State", safe(node["state"]).upper()),
        ("Since", local_time(node["since"]) if node["since"] else "never seen"),
        ("Address", safe(node["address"] or "-")),
        ("Slots", _slots(node)),
        ("Cores", _number(node["cores"])),
        ("Memory", _memory(node["memory_mib"])),
        ("Runtime", safe(node["runtime"])),
        *([("Trouble", safe(node["trouble"]))] if node.get("trouble") else []),
        ("Labels", labels or "-"),
        ("Groups", safe(", ".join(node["groups"])) or "-"),
        ("Resources", "" if node["resources"] else "-"),
    ]
    return "\n".join([records(pairs), *(_resource(resource) for resource in node["resources"])])


def _resource(resource: Json) -> str:
    names = dict.fromkeys((resource["kind"], *resource["aliases"]))
    known = " or ".join(f'"{safe(name)}"' for name in names)
    groups = f", for {safe(', '.join(resource['groups']))}" if resource["groups"] else ""
    held = f", held by job {resource['job']}" if resource["job"] is not None else ""
    if not resource["free"] and not held and not resource["trouble"]:
        held = ", held by somebody else's job"
    trouble = f", out of use: it {safe(resource['trouble'])}" if resource["trouble"] else ""
    index = resource["index"]
    return f'  {index}: "{safe(resource["model"])}" aka {known} (cuda {index}){groups}{held}{trouble}'


def _slots(node: Json) -> str:
    return f"{_number(node['free_slots'])} of {_number(node['slots'])} free"


def _number(value: float | None) -> str:
    return "-" if value is None else str(value)


def _memory(mebibytes: float | None) -> str:
    return "-" if not mebibytes else f"{mebibytes / 1024:.0f} GiB"


def _kinds(resources: Sequence[Json]) -> str:
    counts: dict[str, list[int]] = {}
    for resource in resources:
        count = counts.setdefault(safe(resource["kind"]), [0, 0, 0])
        count[0] += 1
        count[1] += resource["free"]
        count[2] += bool(resource["trouble"])
    return ", ".join(_kind(kind, *count) for kind, count in counts.items()) or "-"


def _kind(name: str, total: int, free: int, sick: int) -> str:
    return f"{total}:{name} ({free} free{f', {sick} out of use' if sick else ''})"
