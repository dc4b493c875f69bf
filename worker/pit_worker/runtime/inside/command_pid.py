"""Which process of a tree runs the job's command: the one that a session enters."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pit_protocol.system.procfs import read_stat


class Entrance(NamedTuple):
    """A running process, held open: its id cannot be reused meanwhile without this being noticed."""

    pid: int
    descriptor: int  # readable when it has ended; the caller closes it


def find_command(supervisor: int, writer: int | None) -> int | None:
    """The command below its supervisor; None if it has not begun, or is over."""
    own, excluded = _command_line(supervisor), {writer} if writer else set()
    if _makes_namespace(supervisor):
        init = _first_child(supervisor, excluded)  # a fork of the supervisor
        return _first_child(init, set(), own) if init else None
    # Before it begins, the command is a fork that looks like the supervisor itself.
    return _first_child(supervisor, excluded, own)


def find_in_container(init: int) -> int:
    """The command below the init of a container; the init itself if that cannot be seen."""
    return _first_child(init, set()) or init


def hold(pid: int) -> Entrance | None:
    """Open a process; None if it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return None
    stat = read_stat(pid)
    if stat is None or stat.has_ended:
        os.close(descriptor)
        return None
    return Entrance(pid, descriptor)


def read_environment(pid: int) -> dict[str, str]:
    """What it was started with; empty if this worker may not read it."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    split = (os.fsdecode(pair).partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in split if name}


def _first_child(parent: int, excluded: set[int], other_than: bytes | None = None) -> int | None:
    """The child that began first; those that were adopted later began later."""
    found = []
    for pid in _children(parent):
        stat = read_stat(pid)
        if pid not in excluded and stat and not stat.has_ended and _command_line(pid) != other_than:
            found.append((stat.start_time, pid))
    return min(found)[1] if found else None


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _makes_namespace(pid: int) -> bool:
    """Whether its children are in a PID namespace that it is not in, as those of some supervisors are."""
    try:
        inner, outer = (Path(f"/proc/{pid}/ns/{name}").readlink() for name in ("pid_for_children", "pid"))
    except OSError:
        return False
    return inner != outer
