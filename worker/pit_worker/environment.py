"""What a process finds around itself: its environment, its directories, its script."""

from collections.abc import Mapping
from pathlib import Path

from pit_protocol.beat import ProcessSpec
from pit_worker.entry import Entry


class StartRefused(Exception):
    """A process cannot be started here; the text says why, for its user."""


def environment(entry: Entry, spec: ProcessSpec, search_path: str) -> dict[str, str]:
    """The whole environment of a process; nothing of the worker's own is in it."""
    places = _places(Path(entry.intent.data_root), spec)
    base = {"PATH": search_path, "LANG": "C.UTF-8"}
    if home := places.get("USER_DIR"):
        base["HOME"] = str(home)
    return {
        **base,
        **spec.env,
        **{name: str(place) for name, place in places.items()},
        "HOSTFILE": str(entry.hostfile),
        "PIT_COOKIE": entry.cookie,
    }


def exports(variables: Mapping[str, str]) -> str:
    """The user's own variables, for a shell to read when only his command is left to begin.

    So they are in no process's arguments, and nothing that watches over him is steered by them.
    """
    quoted = {name: value.replace("'", "'\\''") for name, value in variables.items()}
    return "".join(f"export {name}='{value}'\n" for name, value in quoted.items())


def script(entry: Entry, spec: ProcessSpec) -> str:
    """What bash is to run, seen from SRC_DIR; raises StartRefused where there is nothing."""
    if spec.command is not None:
        return str(entry.command)
    source = _places(Path(entry.intent.data_root), spec)["SRC_DIR"]
    if not (source / ".compute").is_file():
        raise StartRefused("there is no .compute in the project, and no command was given")
    return ".compute"


def _places(root: Path, spec: ProcessSpec) -> dict[str, Path]:
    """Absolute paths by name; raises StartRefused for a missing directory or one outside the root."""
    if not root.is_dir():
        raise StartRefused(f"the data root {root} is not there on this node")
    if "SRC_DIR" not in spec.paths:
        raise StartRefused("the order names no SRC_DIR")
    places = {}
    for name, relative in spec.paths.items():
        if relative.startswith("/") or ".." in Path(relative).parts:
            raise StartRefused(f"{name} leads out of the data root: {relative}")
        place = root / relative
        # Others, such as RESULT_FILE, are for the process to make.
        if name.endswith("_DIR") and not place.is_dir():
            raise StartRefused(f"{name} is not there: {place}")
        places[name] = place
    return places
