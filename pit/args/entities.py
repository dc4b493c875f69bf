"""Parse entities, written `KIND:NAME`, and their properties, written `PROPERTY=VALUE`."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import click

from pit.args.options import LAST, RANGE, job_number, job_numbers
from pit.ui.times import parse_local_window
from pit_protocol.arrays.numbers import job_name
from pit_protocol.notifications import KEY, PREFIX, SLACK, TELEGRAM

# Each kind, and its collection in the API.
COLLECTIONS = {
    "user": "users",
    "group": "groups",
    "node": "nodes",
    "site": "sites",
    "alias": "aliases",
    "job": "jobs",
    "token": "tokens",
    "trash": "trash",
}
SETTABLE = ("user", "group", "node", "site", "alias", "job")
ADDABLE = ("user", "group", "node", "site", "alias")  # a job is added by `pit run`
MAINTENANCE = "maintenance"  # the property of a node that contains a time
SECRET_CHANNELS = tuple(PREFIX + name for name in (KEY, SLACK, TELEGRAM))
GROUPED = ("user", "job", "node")
_INVALID_IN_PATH = re.compile(r"[/\\\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class Entity:
    kind: str
    name: str
    resource: int | None = None  # index of one of a node's resources

    @property
    def path(self) -> str:
        """The path in the API."""
        path = f"/{COLLECTIONS[self.kind]}/{quote(self.name, safe='')}"
        return path if self.resource is None else f"{path}/resources/{self.resource}"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" + ("" if self.resource is None else f":{self.resource}")


def parse_entity(text: str, kinds: Sequence[str], *, resources: bool = False) -> Entity:
    """Parse `user:anna`, `me`, `190`, or with `resources` also `node:n0:0`."""
    if text == "me":
        text = "user:me"
    if text[:1].isdecimal() or text == LAST:
        text = f"job:{text}"
    kind, _, name = text.partition(":")
    if kind not in kinds:
        forms = ", ".join(f"{known}:NAME" if known != "job" else "job:NUMBER" for known in kinds)
        raise click.UsageError(f"{text!r} cannot be used here; write {forms}")
    if kind == "job":
        number = job_number(name)
        return Entity(kind, job_name(number) if number else LAST)
    if resources and kind == "node" and ":" in name:
        return _parse_resource(name)
    return Entity(kind, check_name(kind, name))


def parse_entities(texts: Sequence[str], kinds: Sequence[str]) -> list[Entity]:
    """Parse several, each once; `190-199` or `job:190-199` is a range of jobs."""
    found: list[Entity] = []
    for text in texts:
        if RANGE.fullmatch(text.removeprefix("job:")) and "job" in kinds:
            found += [Entity("job", job_name(number)) for number in job_numbers(text)]
        else:
            found.append(parse_entity(text, kinds))
    return list(dict.fromkeys(found))


def is_entity(text: str) -> bool:
    """Whether a word has the form of an entity."""
    return text == LAST or text[:1].isdecimal() or (text.partition(":")[0] in COLLECTIONS and ":" in text)


def check_name(kind: str, name: str) -> str:
    """Refuse a name that cannot be sent in a URL path; the head checks the rest."""
    if not name:
        raise click.UsageError(f"{kind}: has no name; write {kind}:NAME")
    if _INVALID_IN_PATH.search(name) or name in (".", ".."):
        raise click.UsageError(f"{name!r} is not a valid {kind} name")
    return name


def parse_group(text: str) -> str:
    """Parse a group, written `students` or `group:students`."""
    return check_name("group", text.removeprefix("group:"))


def is_secret(name: str) -> bool:
    """Whether a property's value must not be shown."""
    return name == "password" or name.startswith("git.") or name in SECRET_CHANNELS


def parse_properties(words: Sequence[str]) -> dict[str, str | None]:
    """Parse `full_name="Anna A." admin=yes`; a secret without a value is None and must be asked for."""
    properties: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or (not equals and not is_secret(name)):
            raise click.UsageError(f"{word!r} is not an assignment; write PROPERTY=VALUE")
        if name in properties:
            raise click.UsageError(f"{name} is set twice")
        properties[name] = _local(name, value) if equals else None
    return properties


def _local(name: str, value: str) -> str:
    """The value as it is sent: a time without an offset is the user's own."""
    if name != MAINTENANCE or not value:
        return value
    try:
        return parse_local_window(value, time.time())
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from None


def _parse_resource(name: str) -> Entity:
    node, _, index = name.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,6}", index):
        raise click.UsageError(f"{index!r} is not a resource number; write node:NAME:NUMBER")
    return Entity("node", check_name("node", node), int(index))
