"""How processes are run: the interface that every runtime has."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pit_protocol.messages.beat import ProcessSpec
from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import Start
from pit_protocol.system import pieces
from pit_worker.runtime.inside.command_pid import Entrance
from pit_worker.runtime.inside.local_command import Inside
from pit_worker.spool.entry import Entry
from pit_worker.spool.environment import NodeFault, StartRefused

READ_ONLY, WRITE_ONLY = 0o444, 0o200
LEASE_SCRIPT = Path(__file__).with_name("lease.sh")  # of containers

Started = Callable[[int | StartRefused | OSError], None]
ExitCollected = Callable[[int | None], None]


NOT_THERE = Problem("not_running", "the process does not run any more", "`pit status` lists jobs")


class Runtime(Protocol):
    """What the worker needs of whatever runs processes. Processes outlive the worker.

    No method blocks the loop: a result that takes long is passed to a callback, in the loop.
    """

    @property
    def trouble(self) -> str | None:
        """Why no processes can be started now; empty if they can, None if that is not known yet."""

    @property
    def gpu_trouble(self) -> str | None:
        """Why no process can be given a GPU, as a predicate; empty and None as above."""

    def check(self) -> str:
        """Try whether processes can be started; blocks. What `trouble` covers need not be tried."""

    def await_ready(self, ready: Callable[[], None]) -> None:
        """Call `ready`, in the loop, once processes can be run at all."""

    def start(self, entry: Entry, started: Started) -> None:
        """Start a process unless it ever was, and call back with a descriptor, readable when it has ended.

        Or with StartRefused; or with OSError where it may or may not run and should be tried again.
        """

    def adopt(self, entry: Entry) -> int | None:
        """The descriptor of a process that runs already; None if it does not run any more."""

    def collect_exit(self, entry: Entry, collected: ExitCollected) -> None:
        """Find out how it ended, and call back with None; or with a descriptor if it has not ended."""

    def signal(self, entry: Entry, number: int) -> int:
        """Signal the whole process tree, 0 to only count it; how many there were."""

    def warn(self, entry: Entry, number: int) -> int:
        """Signal those programs of the process tree that handle the signal; how many there were."""

    def find_cgroup(self, entry: Entry) -> Path | None:
        """The cgroup that holds the process with everything that it started, if there is one."""

    def list_pids(self, entry: Entry) -> set[int]:
        """The process ids of the whole process tree; blocks."""

    def command_has_ended(self, entry: Entry) -> bool:
        """Whether its command has ended, though what it left behind may still write."""

    def has_exit_status(self, entry: Entry) -> bool:
        """Whether it is known how it ended, and its output is complete."""

    def remove(self, entry: Entry) -> None:
        """Remove what it has outside the entry's directory."""

    def remove_orphans(self, cluster: str) -> None:
        """Remove what earlier workers left of processes that are no longer in the spool."""

    def list_disks(self) -> list[Path]:
        """Where it uses disks of the node besides the spool's; blocks."""

    def list_written_dirs(self, entry: Entry) -> list[Path]:
        """Directories that only this process writes to; blocks, raises OSError."""

    def enter(self, entry: Entry, start: Start, session: str) -> tuple[Inside, Entrance]:
        """Run a command inside the process, and tell which process that is; blocks, raises a Problem."""

    def hold(self, entry: Entry) -> Entrance:
        """The process of its command, held open; raises a Problem if it does not run."""

    def shut_down(self) -> None:
        """The worker exits and has no processes: remove what was set up for them."""


def find_job_dir(entry: Entry) -> list[Path]:
    spec = entry.intent.spec
    return [Path(entry.intent.data_root) / spec.paths["JOB_DIR"]] if spec and "JOB_DIR" in spec.paths else []


def output_writer(entry: Entry) -> list[str]:
    """The interpreter, program and limit of what copies the output of a process to its files."""
    return [sys.executable, pieces.__file__, str(entry.output_bytes)]


def give_files(entry: Entry, spec: ProcessSpec) -> None:
    """Give the user of a process access to the files of the spool that are mounted for it, and no more."""
    for file in (entry.hostfile, entry.command, entry.variables):
        if file.exists():
            file.chmod(READ_ONLY)
    if os.geteuid() == 0:
        # Otherwise a program that reads all files inside would block on the pipe, and take output from it.
        entry.pipe.chmod(WRITE_ONLY)
    if spec.account:
        try:
            for file in (entry.pipe, *([entry.expired] if spec.lease_s else [])):
                os.chown(file, spec.account.uid, spec.account.gid)
        except PermissionError:
            raise NodeFault("this worker is not root: it cannot run processes of other users") from None
