"""What the worker stores of one process: a directory in the spool, and every file name in it."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pit_protocol.atomic_file import write_atomic
from pit_protocol.messages.beat import ProcessSpec, TimeLimit
from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy
from pit_protocol.system.pieces import Pieces
from pit_protocol.system.procfs import parse_stat
from pit_protocol.wire import from_json, to_json
from pit_worker.spool.lease import FILE_NAME as LEASE

TRIES = "tries"  # a byte for each worker that tried to start it
T = TypeVar("T")
OUTPUT = "output"  # the first file of the output; those that follow are `output.OFFSET`


class Key(NamedTuple):
    """A process and its attempt; one key is started at most once."""

    process: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.process}-{self.attempt}"


@dataclass(frozen=True)
class Intent:
    """What the worker is going to run, on disk before it does."""

    process: int
    attempt: int
    cluster: str
    boot_id: str
    data_root: str
    spec: ProcessSpec | None  # None: a tombstone, never to be started


@dataclass(frozen=True)
class Clock:
    """The time limit of a process, and what is known of when its time began."""

    limit: TimeLimit | None = None
    began_at: float | None = (
        None  # since boot: the first instruction of its job, if that was another process's
    )
    is_warned: bool = False  # it got the signal that comes before the end


@dataclass(frozen=True)
class Stop:
    """A request to stop that the worker has accepted."""

    at: float
    killed_by: KilledBy | None
    reason: str = ""


@dataclass(frozen=True)
class End:
    """How a process ended."""

    ended_at: float
    exit_code: int | None = None
    signal: int | None = None
    killed_by: KilledBy | None = None
    reason: str = ""
    oom: bool = False
    node_fault: bool = False  # its command never began, through no fault of the job


@dataclass(frozen=True)
class Record:
    """The container of a process; on disk before its command may start."""

    container: str  # its id
    pid: int  # of its init, on the node
    start_time: int
    cgroup: str


class Entry:
    """One process's directory; its supervisor and the worker write to it."""

    def __init__(self, path: Path, intent: Intent) -> None:
        self.path = path
        self.intent = intent
        self.key = Key(intent.process, intent.attempt)
        self.marker = f"{intent.cluster}-{self.key}"
        self.command = path / "command"
        self.hostfile = path / "hostfile"
        self.variables = path / "variables"  # the user's own, as a script that exports them
        self.output = Pieces(str(path / OUTPUT), str(path / f"{OUTPUT}."))
        self.pipe = path / "pipe"  # what the command writes to
        self.cgroup = path / "cgroup"
        self.container = path / "container"  # its id, if it has one
        self.started = path / "started"
        self.lease = path.parent / LEASE
        self.expired = path / "expired"  # not empty once its lease has expired

    @property
    def output_bytes(self) -> int:
        """How many bytes of output are kept; 0: all."""
        return self.intent.spec.output_bytes if self.intent.spec else 0

    def claim(self) -> bool:
        """Take the only right to start the command; False if a supervisor has it."""
        try:
            os.close(os.open(self.started, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    def is_claimed(self) -> bool:
        return self.started.exists()

    def prevent_start(self) -> bool:
        """Make sure that the command never starts; False if it may have."""
        try:
            return self.claim()
        except OSError:
            # Nobody can take the claim from a spool that cannot be written.
            return not self.is_claimed()

    def note_try(self) -> None:
        """Put on record that a worker tries to start it, in case that ends the worker."""
        with suppress(OSError), (self.path / TRIES).open("ab") as file:
            file.write(b".")

    def count_tries(self) -> int:
        """How many workers ended while they tried to start it."""
        return _size(self.path / TRIES) or 0

    def forget_tries(self) -> None:
        with suppress(OSError):
            (self.path / TRIES).unlink(missing_ok=True)

    def supervisor(self) -> tuple[int, int] | None:
        """Process id and start time of the supervisor that has the claim, once it has written them."""
        line = _read(self.started)
        return parse_stat(line)[:2] if line.strip() else None

    def was_cancelled(self) -> bool:
        """Whether it was stopped before anything had started, and perhaps forgotten since."""
        return not self.path.exists() or (self.is_claimed() and self.supervisor() is None)

    def started_at(self) -> float | None:
        return _time(self.started)

    def began_at(self) -> float | None:
        """The same by the clock since boot, which nobody sets."""
        known = self.supervisor()
        return known[1] / os.sysconf("SC_CLK_TCK") if known else None

    def output_writer(self) -> int | None:
        """Process id of the program that writes the output to its file."""
        text = _read(self.path / "scribe")
        return int(text) if text.strip().isdigit() else None

    def write_line(self, line: str, *, has_ended: bool = False) -> None:
        """Write a line of the worker's to its output: before the command starts, or after it has ended."""
        if self.is_claimed() and not has_ended:
            return
        with suppress(OSError):
            self.output.append(f"{line}\n".encode(), self.output.size(), self.output_bytes)

    def command_has_ended(self) -> bool:
        """Whether the command has ended; its exit code counts once all output is in the file."""
        return (self.path / "exit.part").exists()

    def exit_code(self) -> int | None:
        """The first word that its supervisor left."""
        words = _read(self.path / "exit").split()
        return int(words[0]) if words and words[0].isdigit() else None

    def has_empty_tree(self) -> bool:
        """Whether its supervisor made sure that nothing is left of what the command started."""
        return _read(self.path / "exit").split()[1:] == ["empty"]

    def exit_could_not_be_saved(self) -> bool:
        """Whether its supervisor saw the end, but a full disk kept it from saving the exit code."""
        return any(_size(self.path / name) == 0 for name in ("exit", "exit.part"))

    def fault(self) -> str:
        """Why its supervisor could not start the command; empty if it could."""
        return _read(self.path / "fault").strip()

    def lease_has_expired(self) -> bool:
        """Whether its lease watchdog ended it."""
        return bool(_read(self.expired))

    def exited_at(self) -> float | None:
        return _time(self.path / "exit")

    def stop(self) -> Stop | None:
        return _load(Stop, self.path / "stop")

    def clock(self) -> Clock:
        return _load(Clock, self.path / "clock") or Clock()

    def end(self) -> End | None:
        return _load(End, self.path / "end")

    # The names `scribe` and `verdict` on disk are older than those here: a new worker adopts old entries.
    def container_exit(self) -> End | None:
        """How its container ended, as the engine reported it."""
        return _load(End, self.path / "verdict")

    def record(self) -> Record | None:
        return _load(Record, self.path / "record")

    def image(self) -> str:
        """The digest of its container's image."""
        return _read(self.path / "image")

    def save_image(self, digest: str) -> None:
        write_atomic(self.path / "image", digest)

    def save_record(self, record: Record) -> None:
        write_atomic(self.container, record.container)
        write_atomic(self.path / "record", json.dumps(to_json(record)))

    def save_container_exit(self, end: End) -> None:
        write_atomic(self.path / "verdict", json.dumps(to_json(end)))

    # None needs fsync: they must outlive the worker; after a power loss the boot id shows the end.
    def save_stop(self, stop: Stop) -> None:
        write_atomic(self.path / "stop", json.dumps(to_json(stop)))

    def save_clock(self, clock: Clock) -> None:
        write_atomic(self.path / "clock", json.dumps(to_json(clock)))

    def save_end(self, end: End) -> None:
        write_atomic(self.path / "end", json.dumps(to_json(end)))


def _load(kind: type[T], path: Path) -> T | None:
    text = _read(path)
    if not text:
        return None
    with suppress(ValueError, Problem):
        body: Any = json.loads(text)
        return from_json(kind, body)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
