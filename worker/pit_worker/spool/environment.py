"""What a process is started with: its environment, its directories, its script."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.messages.beat import ProcessSpec
from pit_worker.spool.entry import Entry

# Python would keep what it prints until it has 8 KiB, because output goes to a pipe.
DEFAULTS = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
LONGEST_VARIABLE = 128 * 1024  # bytes of name, `=`, value and a zero byte; the limit of Linux


class StartRefused(Exception):
    """A process cannot be started, here or anywhere; the text says why, for its user."""


class NodeFault(StartRefused):
    """A process cannot be started on this node, through no fault of its job: another node may start it."""


@dataclass(frozen=True)
class Places:
    """The paths of a process's directories and files, as the process sees them."""

    by_variable: Mapping[str, str]
    hostfile: str
    command: str
    variables: str


def places_on_node(entry: Entry, spec: ProcessSpec) -> Places:
    """The paths on the node itself; raises StartRefused."""
    found = _places(Path(entry.intent.data_root), spec)
    by_variable = {name: str(place) for name, place in found.items()}
    return Places(by_variable, str(entry.hostfile), str(entry.command), str(entry.variables))


def environment(entry: Entry, spec: ProcessSpec, places: Places, search_path: str) -> dict[str, str]:
    """The whole environment of a process; it has nothing of the worker's own."""
    base = {"PATH": search_path, **DEFAULTS}
    if home := places.by_variable.get("USER_DIR"):
        base["HOME"] = home
    return {
        **base,
        **spec.env,
        **places.by_variable,
        "HOSTFILE": places.hostfile,
        "PIT_COOKIE": entry.marker,
    }


def check_variables(variables: Mapping[str, str]) -> None:
    """Refuse what no program can be started with: StartRefused."""
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise StartRefused(f"it could not be started: {name!r} is no environment variable")
        if len(os.fsencode(name)) + len(os.fsencode(value)) + 2 > LONGEST_VARIABLE:
            raise StartRefused(f"it could not be started: the environment variable {name} is too long")


def exports(variables: Mapping[str, str]) -> str:
    """The user's own variables, as a script that the shell reads right before it runs the command.

    So they are in no process's arguments, and do not affect the supervisor.
    """
    quoted = {name: value.replace("'", "'\\''") for name, value in variables.items()}
    return "".join(f"export {name}='{value}'\n" for name, value in quoted.items())


def script(entry: Entry, spec: ProcessSpec, places: Places) -> str:
    """The script that bash runs, relative to SRC_DIR; raises StartRefused if there is none."""
    if spec.command is not None:
        return places.command
    source = _places(Path(entry.intent.data_root), spec)["SRC_DIR"]
    if not (source / ".compute").is_file():
        raise StartRefused("there is no .compute in the project, and no command was given")
    return ".compute"


def _places(root: Path, spec: ProcessSpec) -> dict[str, Path]:
    """Absolute paths by name; raises StartRefused for a missing directory or one outside the root."""
    if not root.is_dir():
        raise NodeFault(f"the data root {root} is not there on this node")
    if "SRC_DIR" not in spec.paths:
        raise StartRefused("the order names no SRC_DIR")
    places = {}
    for name, relative in spec.paths.items():
        if relative.startswith("/") or ".." in Path(relative).parts:
            raise StartRefused(f"{name} leads out of the data root: {relative}")
        place = root / relative
        # Others, such as RESULT_FILE, are created by the process.
        if name.endswith("_DIR") and not place.is_dir():
            raise NodeFault(f"{name} is not there: {place}")
        places[name] = place
    return places
