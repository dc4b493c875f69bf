"""The properties of a node that an admin can set, and how their texts are read."""

import re

from pit_protocol.problem import Problem
from pit_protocol.states import NodeState
from pit_server.services import names
from pit_server.services.nodes import maintenance
from pit_server.services.properties import Property, read_count, read_text, read_yes_no

MAX_NAME = 255
SERVICES = (NodeState.ONLINE, NodeState.DRAINING, NodeState.MAINTENANCE)
LABEL = "label."
ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?|::[0-9a-f:.]*")


def _read_service(name: str, text: str) -> str:
    if text not in SERVICES:
        raise Problem(
            "bad_state", f"{name} must be one of {', '.join(SERVICES)}, not {text[:40]!r}", status=422
        )
    return text


def _read_label(name: str, text: str) -> str:
    names.check_name("label", name.removeprefix(LABEL))
    if any(character in text for character in ",@[]="):
        raise Problem("bad_label", f"{name}: a label must not contain , @ [ ] =", status=422)
    return read_text("label", text)


def _read_address(name: str, text: str) -> str:
    check_address(name, text)
    return text


PROPERTIES = (
    Property("state", _read_service),
    Property("reason", read_text),
    Property("maintenance", maintenance.read),
    Property("address", _read_address),
    Property("slots", read_count),
    Property("shared_account", read_yes_no),
    Property(LABEL, _read_label),
)


def check_address(what: str, text: str) -> None:
    """Raise a Problem unless it is empty or can be a host's name or address, because scripts use it."""
    if text and (len(text) > MAX_NAME or not ADDRESS.fullmatch(text)):
        raise Problem("bad_address", f"{what}: {text[:40]!r} is not a host name or address", status=422)
