"""Processes of this machine, as /proc shows them."""

from pathlib import Path
from typing import NamedTuple


class Stat(NamedTuple):
    """The fields of /proc/<pid>/stat that pit uses; the first two identify a process."""

    pid: int
    start_time: int  # in clock ticks since boot
    parent: int
    session: int
    state: str  # one letter; Z is a zombie
    threads: int

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs; a zombie with threads still has its files and ports open."""
        return self.state in ("Z", "X") and self.threads <= 1


class Use(NamedTuple):
    """What a process uses, with the children that it has waited for."""

    ticks: int  # of processor time so far
    pages: int  # of memory now


def parse_use(line: str) -> Use:
    rest = line[line.rindex(")") + 2 :].split()
    return Use(sum(map(int, rest[11:15])), int(rest[21]))


def read_use(pid: int) -> Use | None:
    """None if there is no such process."""
    line = _read(pid)
    return parse_use(line) if line else None


def parse_stat(line: str) -> Stat:
    # The name in parentheses may itself contain spaces and parentheses.
    rest = line[line.rindex(")") + 2 :].split()
    return Stat(
        int(line[: line.index("(")]), int(rest[19]), int(rest[1]), int(rest[3]), rest[0], int(rest[17])
    )


def read_stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    line = _read(pid)
    return parse_stat(line) if line else None


def _read(pid: int) -> str:
    try:
        # A process can give itself any name, so the text need not be UTF-8.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
