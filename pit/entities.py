"""Things with a name, written `KIND:NAME`, and their properties, written `PROPERTY=VALUE`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import click

from pit.options import job_number

# Kind, and the folder of the API that its records are in.
FOLDERS = {
    "user": "users",
    "group": "groups",
    "node": "nodes",
    "alias": "aliases",
    "job": "jobs",
    "token": "tokens",
}
SETTABLE = ("user", "group", "node", "alias", "job")
ADDABLE = ("user", "group", "node", "alias")  # a job is added by `pit run`
GROUPED = ("user", "job", "node")
_LOST_IN_A_PATH = re.compile(r"[/\\\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class Entity:
    kind: str
    name: str
    resource: int | None = None  # of a node: one of its resources

    @property
    def path(self) -> str:
        """Where the API has it."""
        whole = f"/{FOLDERS[self.kind]}/{quote(self.name, safe='')}"
        return whole if self.resource is None else f"{whole}/resources/{self.resource}"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" + ("" if self.resource is None else f":{self.resource}")


def parse_entity(text: str, kinds: Sequence[str], *, resources: bool = False) -> Entity:
    """`user:anna`, `me`, `190`, or with `resources` also `node:n0:0`; raises click's usage error."""
    if text == "me":
        text = "user:me"
    if text[:1].isdecimal():
        text = f"job:{text}"
    kind, _, name = text.partition(":")
    if kind not in kinds:
        forms = ", ".join(f"{known}:NAME" if known != "job" else "job:NUMBER" for known in kinds)
        raise click.UsageError(f"{text!r} names nothing that this is for; write {forms}")
    if kind == "job":
        return Entity(kind, str(job_number(name)))
    if resources and kind == "node" and ":" in name:
        return _parse_resource(name)
    return Entity(kind, check_name(kind, name))


def is_entity(text: str) -> bool:
    """Whether a word looks like one, be there one of that name or not."""
    return text[:1].isdecimal() or (text.partition(":")[0] in FOLDERS and ":" in text)


def check_name(kind: str, name: str) -> str:
    """Refuse what cannot be sent as a name; all else is for the head to judge."""
    if not name:
        raise click.UsageError(f"{kind}: lacks a name; write {kind}:NAME")
    if _LOST_IN_A_PATH.search(name) or name in (".", ".."):
        raise click.UsageError(f"{name!r} is no name of a {kind}")
    return name


def parse_group(text: str) -> str:
    """A group, as `students` or `group:students`."""
    return check_name("group", text.removeprefix("group:"))


def is_secret(name: str) -> bool:
    """Whether the values of a property must not be seen."""
    return name == "password" or name.startswith("git.")


def parse_properties(words: Sequence[str]) -> dict[str, str | None]:
    """What `full_name="Anna A." admin=yes` sets; of a bare `password` the value is to be asked for."""
    properties: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or (not equals and not is_secret(name)):
            raise click.UsageError(f"{word!r} sets nothing; write PROPERTY=VALUE")
        if name in properties:
            raise click.UsageError(f"{name} is set twice")
        properties[name] = value if equals else None
    return properties


def _parse_resource(name: str) -> Entity:
    node, _, index = name.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,6}", index):
        raise click.UsageError(f"{index!r} is no resource of a node; write node:NAME:NUMBER")
    return Entity("node", check_name("node", node), int(index))
