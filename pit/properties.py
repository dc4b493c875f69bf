"""Values that a person at a terminal is asked for, and values of records as text."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pit import terminal
from pit.entities import Entity, is_secret
from pit.files import read_text
from pit_protocol.problem import Problem

Json = Mapping[str, Any]
STDIN = "-"
FILE = "@"

# What is asked for when one is added, and by which words; what is mandatory, the head judges.
WANTED = {
    "user": {"full_name": "Full name"},
    "alias": {"name": "Model, as `pit show node:NAME` names it"},
}


def complete(entity: Entity, properties: Mapping[str, str | None]) -> dict[str, str]:
    """What it takes to add the entity; what is missing is asked for on a terminal."""
    whole = dict(properties)
    if terminal.is_interactive():
        for name, label in WANTED.get(entity.kind, {}).items():
            if name not in whole:
                whole[name] = terminal.ask(label)
        if entity.kind == "user":
            whole.setdefault("password", None)
    return with_secrets(whole)


def with_secrets(properties: Mapping[str, str | None]) -> dict[str, str]:
    """The same, where a secret that is not there is asked for, and `-` or `@FILE` is read."""
    return {
        name: _secret(name, value) if is_secret(name) else value or "" for name, value in properties.items()
    }


def _secret(name: str, value: str | None) -> str:
    if value == STDIN:
        secret = sys.stdin.readline() if name == "password" else sys.stdin.read()
    elif value and value.startswith(FILE) and name != "password":
        secret = read_text(Path(value[1:]).expanduser()) or ""
        if not secret:
            raise Problem(
                "no_file", f"{value[1:]} is not there, or empty", "name a file with a token or a key"
            )
    elif value:
        raise Problem(
            "secret_shown",
            f"{name} on the command line is there for all to see, in lists of processes and histories",
            f"leave the value away to be asked, or `{name}=-` reads it from stdin",
        )
    elif value == "" and name != "password":
        return ""  # takes it away
    elif not terminal.is_interactive():
        raise Problem(
            "no_secret", f"without a terminal {name} cannot be asked for", f"`{name}=-` reads it from stdin"
        )
    else:
        return (
            terminal.ask_new_password()
            if name == "password"
            else terminal.ask_hidden(f"Token for {name[4:]}")
        )
    if name == "password":
        terminal.check_password(secret.rstrip("\n"))
    return secret.rstrip("\n")


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
