"""Property values: ask for missing ones, read secrets, render values as text."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pit.args.entities import Entity, is_secret
from pit.text_files import read_text
from pit.ui import prompt
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.notifications import KEY, SLACK, TELEGRAM
from pit_protocol.problem import Problem
from pit_protocol.wire import to_json

# What is asked for channels of notifications.
QUESTIONS = {
    KEY: "Key that signs webhooks",
    SLACK: "URL of the incoming webhook",
    TELEGRAM: "Bot and chat, as TOKEN/CHAT",
}
STDIN = "-"
FILE = "@"

# Properties to ask for when an entity is added, with their prompts; the head checks which are required.
PROMPTS = {
    "user": {"full_name": "Full name"},
    "alias": {"name": "Model, as shown by `pit show node:NAME`"},
}


def ask_missing(entity: Entity, properties: Mapping[str, str | None]) -> dict[str, str]:
    """The properties of a new entity; on a terminal, ask for missing ones."""
    values = dict(properties)
    if prompt.is_interactive():
        for name, label in PROMPTS.get(entity.kind, {}).items():
            if name not in values:
                values[name] = prompt.ask(label)
        if entity.kind == "user":
            values.setdefault("password", None)
    return resolve_secrets(values)


def resolve_secrets(properties: Mapping[str, str | None]) -> dict[str, str]:
    """Replace each secret: ask for one without a value, read `-` from stdin and `@FILE` from the file."""
    return {
        name: _secret(name, value) if is_secret(name) else value or "" for name, value in properties.items()
    }


def ask_old_password(given: str | None) -> str:
    """The current password, from where the new one came; empty if the user has none."""
    if given == STDIN:
        return sys.stdin.readline().rstrip("\n")
    if given or not prompt.is_interactive():
        return ""  # refused in a moment, because of the new one
    return prompt.ask_hidden("Current password (empty if you have none)", may_be_empty=True)


def _secret(name: str, value: str | None) -> str:
    if value == STDIN:
        secret = sys.stdin.readline() if name == "password" else sys.stdin.read()
    elif value and value.startswith(FILE) and name != "password":
        secret = read_text(Path(value[1:]).expanduser()) or ""
        if not secret:
            raise Problem(
                "no_file", f"{value[1:]} does not exist or is empty", "name a file with a token or a key"
            )
    elif value:
        raise Problem(
            "secret_shown",
            f"the value of {name} is visible to others on the command line and in the shell history",
            f"leave the value out to be asked for it, or use `{name}=-` to read it from stdin",
        )
    elif value == "" and name != "password":
        return ""  # removes the secret
    elif not prompt.is_interactive():
        raise Problem(
            "no_secret", f"cannot ask for {name} without a terminal", f"`{name}=-` reads it from stdin"
        )
    else:
        return prompt.ask_new_password() if name == "password" else prompt.ask_hidden(_question(name))
    if name == "password":
        prompt.check_password(secret.rstrip("\n"))
    return secret.rstrip("\n")


def _question(name: str) -> str:
    kind, _, rest = name.partition(".")
    return f"Token for {rest}" if kind == "git" else QUESTIONS[rest]


def find_value(entity: Entity, record: Struct, name: str) -> object:
    """A property of a record; raise a Problem that lists the known properties."""
    values = flatten(entity, record)
    if name not in values:
        raise Problem(
            "unknown_property",
            f"{entity} has no property {name!r}",
            f"its properties are {', '.join(values)}",
        )
    return values[name]


def flatten(entity: Entity, record: Struct) -> dict[str, object]:
    """A record's values, by the names used to set them."""
    values: dict[str, object] = to_json(record)
    if entity.kind == "alias":
        return {"name": values["model"]}
    if isinstance(record, JobRecord):
        values |= {f"env.{name}": value for name, value in record.options.env.items()}
    labels = values.pop("labels", None)
    if isinstance(labels, dict):
        values |= {f"label.{name}": value for name, value in labels.items()}
    return values


def value_text(value: object) -> str:
    """A value as the user would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
