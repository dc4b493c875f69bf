"""How processes are run: the interface, and the plain way with a supervisor in /bin/sh."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pit_worker import cgroup, cookie
from pit_worker.entry import Entry, Key, read_stat
from pit_worker.environment import StartRefused, environment, script

SUPERVISE = Path(__file__).with_name("supervise.sh")


Begun = Callable[[int | StartRefused | OSError], None]
Settled = Callable[[int | None], None]


class Runtime(Protocol):
    """What the worker needs of whatever runs processes; all of it survives the worker.

    None of it keeps the loop waiting: what takes long is told later, in the loop.
    """

    @property
    def trouble(self) -> str | None:
        """Why no processes can be started now; empty if they can, None if that is not known yet."""

    @property
    def gpu_trouble(self) -> str | None:
        """Why no process can be given a GPU, as a predicate; empty and None as above."""

    def await_ready(self, ready: Callable[[], None]) -> None:
        """Call `ready`, in the loop, once processes can be run at all."""

    def start(self, entry: Entry, begun: Begun) -> None:
        """Start it unless it ever was, and tell a descriptor, readable when it has ended.

        Told instead: StartRefused, or OSError where it may or may not run and another try is due.
        """

    def adopt(self, entry: Entry) -> int | None:
        """The descriptor of one that already runs; None if it does not run any more."""

    def settle(self, entry: Entry, settled: Settled) -> None:
        """Find out how it ended, and tell None; or a descriptor again if it has not."""

    def signal(self, entry: Entry, number: int) -> int:
        """Signal all that it has started, 0 to only count; how many there were."""

    def is_over(self, entry: Entry) -> bool:
        """Whether its command has ended, though what it left behind may still write."""

    def has_exited(self, entry: Entry) -> bool:
        """Whether its end is known, and all output written down."""

    def remove(self, entry: Entry) -> None:
        """Clear away what is not in the entry's directory."""

    def clear(self, cluster: str) -> None:
        """Clear away what earlier workers left of processes that the spool knows no more."""

    def disks(self) -> list[Path]:
        """Where it fills disks of the node beyond the spool's; not for the loop."""

    def list_filled(self, entry: Entry) -> list[Path]:
        """Directories that a process alone fills; not for the loop, raises OSError."""

    def leave(self) -> None:
        """The worker leaves and nothing of its own runs: take down what stood around it."""


class LocalRuntime:
    """Processes of this machine, each in a session (and a cgroup where that may be) of its own."""

    trouble: str | None = ""
    gpu_trouble: str | None = ""

    def __init__(self, search_path: str, own_cgroup: Path | None) -> None:
        self._search_path = search_path
        self._own_cgroup = own_cgroup
        self._children: dict[Key, subprocess.Popen[bytes]] = {}

    def await_ready(self, ready: Callable[[], None]) -> None:
        ready()

    def start(self, entry: Entry, begun: Begun) -> None:
        try:
            outcome: int | StartRefused | OSError = self._start(entry)
        except (StartRefused, OSError) as error:
            outcome = error
        begun(outcome)

    def settle(self, entry: Entry, settled: Settled) -> None:
        # Another worker's supervisor may have been faster, and this one left it the claim.
        settled(self.adopt(entry) if entry.exit_code() is None else None)

    def _start(self, entry: Entry) -> int:
        spec = entry.intent.spec
        if spec is None:
            raise StartRefused("never to be started")
        around = environment(entry, spec, self._search_path)
        try:
            arguments = [
                "/bin/sh",
                str(SUPERVISE),
                str(entry.path),
                script(entry, spec),
                self._make_cgroup(entry),
                *([f"{spec.lease_s:.0f}", f"{spec.grace_s:g}"] if spec.lease_s else []),
            ]
            child = subprocess.Popen(
                arguments,
                env=around,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise StartRefused(f"it could not be started: {error}") from error
        self._children[entry.key] = child
        return os.pidfd_open(child.pid)

    def adopt(self, entry: Entry) -> int | None:
        self._reap(entry)
        known = entry.supervisor()
        pid = known[0] if known else cookie.find_leader(entry.cookie)
        if pid is None:
            return None
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        # The handle first, the look second: a reused id shows another start time.
        stat = read_stat(pid)
        if stat is None or stat.state == "Z" or (known and stat[:2] != known):
            os.close(descriptor)
            return None
        return descriptor

    def signal(self, entry: Entry, number: int) -> int:
        supervisor = self._supervisor(entry)
        if number and supervisor:
            # It records the end, so it is not killed; but it may have been frozen.
            _send(supervisor, signal.SIGCONT if number == signal.SIGKILL else number)
        group = _recorded_cgroup(entry)
        left = cgroup.send(group, number) if group else 0
        if group is None or (left == 0 and number == signal.SIGTERM):
            # Without a cgroup, or on its way into it.
            left = cookie.send(entry.cookie, supervisor, entry.scribe(), number)
        if left == 0 and entry.is_over():
            # Its command has ended, and yet somebody keeps the output open.
            spared = {pid for pid in (entry.scribe(), supervisor and supervisor[0], os.getpid()) if pid}
            left = cookie.send_holders(entry.pipe, spared, number)
        return left

    def is_over(self, entry: Entry) -> bool:
        return entry.is_over()

    def has_exited(self, entry: Entry) -> bool:
        return entry.exit_code() is not None

    def remove(self, entry: Entry) -> None:
        self._reap(entry)
        if group := _recorded_cgroup(entry):
            cgroup.remove(group)

    def clear(self, cluster: str) -> None:
        """Nothing: what is on record is all there can be."""

    def disks(self) -> list[Path]:
        return []

    def list_filled(self, entry: Entry) -> list[Path]:
        return find_job_dir(entry)

    def leave(self) -> None:
        """Nothing stands around them."""

    def _make_cgroup(self, entry: Entry) -> str:
        if self._own_cgroup is None:
            return ""
        group = cgroup.make(self._own_cgroup, entry.cookie)
        entry.cgroup.write_text(str(group))
        return str(group)

    def _supervisor(self, entry: Entry) -> tuple[int, int] | None:
        if known := entry.supervisor():
            return known
        child = self._children.get(entry.key)
        stat = read_stat(child.pid) if child else None
        return stat[:2] if stat else None

    def _reap(self, entry: Entry) -> None:
        child = self._children.get(entry.key)
        if child and child.poll() is not None:
            del self._children[entry.key]


def find_job_dir(entry: Entry) -> list[Path]:
    spec = entry.intent.spec
    return [Path(entry.intent.data_root) / spec.paths["JOB_DIR"]] if spec and "JOB_DIR" in spec.paths else []


def _recorded_cgroup(entry: Entry) -> Path | None:
    try:
        return Path(entry.cgroup.read_text())
    except FileNotFoundError:
        return None


def _send(supervisor: tuple[int, int], number: int) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(supervisor[0])
        try:
            stat = read_stat(supervisor[0])
            if stat and stat[:2] == supervisor:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
