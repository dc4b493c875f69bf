"""The tree of a process without a cgroup: by a marker in the environment, by session, by ancestry."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from pit_protocol.system.procfs import Stat, read_stat

PASSES = 10  # forks between search and kill are found by the next search


def send(marker: str, supervisor: tuple[int, int] | None, output_writer: int | None, number: int) -> int:
    """Signal the whole tree but its supervisor and the output writer; how many are left.

    With SIGKILL it searches again until all that it finds has been killed, a bounded number of times.
    """
    reached: set[tuple[int, int]] = set()
    for _ in range(PASSES):
        found = _tree(marker, supervisor, output_writer)
        fresh = {pid: stat for pid, stat in found.items() if stat[:2] not in reached}
        for pid, stat in parents_first(fresh):
            _send(pid, stat, number)
            reached.add(stat[:2])
        if number != signal.SIGKILL or not fresh:
            break
    return len(found)


def list_members(marker: str, supervisor: tuple[int, int] | None, output_writer: int | None) -> set[int]:
    """Process ids of the whole tree but its supervisor and the output writer."""
    return set(_tree(marker, supervisor, output_writer))


def send_holders(pipe: Path, excluded: set[int], number: int) -> int:
    """Signal the processes that have `pipe` open, but not the excluded ones; how many there were.

    This finds processes that changed both session and environment, but still keep the output open.
    """
    try:
        wanted = pipe.stat()
    except FileNotFoundError:
        return 0
    held = {pid: stat for pid, stat in _stats().items() if pid not in excluded and _holds(pid, wanted)}
    for pid, stat in parents_first(held):
        if number:
            _send(pid, stat, number)
    return len(held)


def send_marked(mark: str, session: int, number: int) -> None:
    """Signal everything with this `NAME=VALUE` in its environment, or in this session; until none is left."""
    reached: set[tuple[int, int]] = set()
    for _ in range(PASSES):
        found = {
            pid: stat
            for pid, stat in _stats().items()
            if not stat.has_ended
            and stat[:2] not in reached
            and (stat.session == session or _has_variable(pid, mark.encode()))
        }
        for pid, stat in parents_first(found):
            _send(pid, stat, number)
            reached.add(stat[:2])
        if not found:
            return


def parents_first(found: dict[int, Stat]) -> list[tuple[int, Stat]]:
    """In the order they started: a shell whose child is killed first would go on with its next line."""
    return sorted(found.items(), key=lambda item: (item[1].start_time, item[0]))


def _tree(marker: str, supervisor: tuple[int, int] | None, output_writer: int | None) -> dict[int, Stat]:
    stats = _stats()
    session = _session(stats, supervisor)
    tree = {pid for pid, stat in stats.items() if stat.session == session or _has_marker(pid, marker)}
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    unvisited = list(tree)
    while unvisited:
        for child in children.get(unvisited.pop(), ()):
            if child not in tree:
                tree.add(child)
                unvisited.append(child)
    tree.discard(session)
    # The output writer exits by itself after the others; but its process id may have been reused.
    if output_writer in tree and stats[output_writer].parent == session:
        tree.discard(output_writer)
    # A zombie is dead; only its parent has not reaped it yet.
    return {pid: stats[pid] for pid in tree if not stats[pid].has_ended}


def _session(stats: dict[int, Stat], supervisor: tuple[int, int] | None) -> int:
    """The session of the supervisor; -1 if its process id has been reused.

    While a session has members its id is not reused, so an id that no process has is still ours.
    """
    if supervisor is None:
        return -1
    stat = stats.get(supervisor[0])
    return supervisor[0] if stat is None or stat[:2] == supervisor else -1


def _stats() -> dict[int, Stat]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    stats = ((pid, read_stat(pid)) for pid in pids)
    return {pid: stat for pid, stat in stats if stat}


def _holds(pid: int, wanted: os.stat_result) -> bool:
    try:
        return any(os.path.samestat(os.stat(fd.path), wanted) for fd in os.scandir(f"/proc/{pid}/fd"))  # noqa: PTH116
    except OSError:
        return False


def _has_marker(pid: int, marker: str) -> bool:
    return _has_variable(pid, b"PIT_COOKIE=" + marker.encode())


def _has_variable(pid: int, pair: bytes) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return pair in environ.split(b"\0")


def _send(pid: int, stat: Stat, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            # First open, then read: a reused process id has another start time.
            now = read_stat(pid)
            if now and now.start_time == stat.start_time:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
