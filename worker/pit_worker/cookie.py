"""A process's tree without a cgroup: by a mark in the environment, by session, by descent."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from pit_worker.entry import Stat, read_stat

PASSES = 10  # new forks between looking and killing are caught by looking again


def send(cookie: str, supervisor: tuple[int, int] | None, scribe: int | None, number: int) -> int:
    """Signal all of the tree but its supervisor and the scribe; how many are left.

    With SIGKILL it looks again until all that it finds has been killed, a bounded number of times.
    """
    reached: set[tuple[int, int]] = set()
    for _ in range(PASSES):
        found = _tree(cookie, supervisor, scribe)
        fresh = {pid: stat for pid, stat in found.items() if stat[:2] not in reached}
        for pid, stat in parents_first(fresh):
            _send(pid, stat, number)
            reached.add(stat[:2])
        if number != signal.SIGKILL or not fresh:
            break
    return len(found)


def send_holders(pipe: Path, spared: set[int], number: int) -> int:
    """Signal who has `pipe` open but the spared; how many there were.

    So is found what left session and environment behind, but still keeps the output from its end.
    """
    try:
        wanted = pipe.stat()
    except FileNotFoundError:
        return 0
    held = {pid: stat for pid, stat in _stats().items() if pid not in spared and _holds(pid, wanted)}
    for pid, stat in parents_first(held):
        if number:
            _send(pid, stat, number)
    return len(held)


def parents_first(found: dict[int, Stat]) -> list[tuple[int, Stat]]:
    """In the order they began: a shell whose child is ended first would go on with its next line."""
    return sorted(found.items(), key=lambda item: (item[1].start_time, item[0]))


def find_leader(cookie: str) -> int | None:
    """The supervisor itself, while it has not yet written who it is."""
    for pid, stat in _stats().items():
        if stat.session == pid and stat.state != "Z" and _has_cookie(pid, cookie):
            return pid
    return None


def _tree(cookie: str, supervisor: tuple[int, int] | None, scribe: int | None) -> dict[int, Stat]:
    stats = _stats()
    session = _session(stats, supervisor)
    tree = {pid for pid, stat in stats.items() if stat.session == session or _has_cookie(pid, cookie)}
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    open_ends = list(tree)
    while open_ends:
        for child in children.get(open_ends.pop(), ()):
            if child not in tree:
                tree.add(child)
                open_ends.append(child)
    tree.discard(session)
    # The scribe ends by itself, when the others have; but its id may have become a stranger's.
    if scribe in tree and stats[scribe].parent == session:
        tree.discard(scribe)
    # A zombie is dead; only its parent has not looked yet.
    return {pid: stats[pid] for pid in tree if stats[pid].state != "Z"}


def _session(stats: dict[int, Stat], supervisor: tuple[int, int] | None) -> int:
    """The session of the supervisor; -1 if its id now belongs to a stranger.

    While a session has members its id is not given anew, so an id that nobody has is still ours.
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


def _has_cookie(pid: int, cookie: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return b"PIT_COOKIE=" + cookie.encode() in environ.split(b"\0")


def _send(pid: int, stat: Stat, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            # The handle first, the look second: a reused id shows another start time.
            now = read_stat(pid)
            if now and now.start_time == stat.start_time:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
