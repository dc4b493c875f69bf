"""Values that a person at a terminal is asked for, and values of records as text."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from pit import terminal
from pit.entities import Entity
from pit_protocol.problem import Problem

Json = Mapping[str, Any]
STDIN = "-"

# What is asked for when one is added, and by which words; what is mandatory, the head judges.
WANTED = {
    "user": {"full_name": "Full name"},
    "alias": {"name": "Model, as `pit show node:NAME` names it"},
}


def complete(entity: Entity, properties: Mapping[str, str]) -> dict[str, str]:
    """What it takes to add the entity; what is missing is asked for on a terminal."""
    whole = dict(properties)
    if terminal.is_interactive():
        for name, label in WANTED.get(entity.kind, {}).items():
            if name not in whole:
                whole[name] = terminal.ask(label)
        if entity.kind == "user":
            whole.setdefault("password", "")
    return with_password(whole)


def with_password(properties: Mapping[str, str]) -> dict[str, str]:
    """The same, where an empty password is asked for, `-` is read from stdin, and any is checked."""
    whole = dict(properties)
    if "password" not in whole:
        return whole
    if whole["password"] == STDIN:
        whole["password"] = sys.stdin.readline().rstrip("\n")
    elif whole["password"]:
        raise Problem(
            "password_shown",
            "a password on the command line is there for all to see, in lists of processes and histories",
            "leave its value away to be asked, or `password=-` reads it from stdin",
        )
    elif not terminal.is_interactive():
        raise Problem(
            "no_password",
            "without a terminal no password can be asked for",
            "`password=-` reads it from stdin",
        )
    else:
        whole["password"] = terminal.ask_new_password()
    terminal.check_password(whole["password"])
    return whole


def find_value(entity: Entity, record: Json, name: str) -> Any:
    """A property of a record, by the name it is set by; raises a Problem that names the known ones."""
    values = flat(entity, record)
    if name not in values:
        raise Problem("unknown_property", f"{entity} has no {name!r}", f"there are {', '.join(values)}")
    return values[name]


def flat(entity: Entity, record: Json) -> dict[str, Any]:
    """A record's values under the names by which they are set."""
    if entity.kind == "alias":
        return {"name": record["model"]}
    values = {name: value for name, value in record.items() if name != "labels"}
    labels = {f"label.{name}": value for name, value in record.get("labels", {}).items()}
    return {**values, **labels}


def value_text(value: Any) -> str:
    """A value as one would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
