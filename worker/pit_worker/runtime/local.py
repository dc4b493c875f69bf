"""Processes of this machine itself, each under a supervisor in /bin/sh."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pit_protocol.system.procfs import read_stat
from pit_worker.runtime import cgroup, handled_signal, process_tree, user_process
from pit_worker.runtime.base import ExitCollected, Started, find_job_dir, give_files, output_writer
from pit_worker.runtime.containment import Containment
from pit_worker.spool.entry import Entry, Key
from pit_worker.spool.environment import NodeFault, StartRefused, environment, places_on_node, script
from pit_worker.venv.cache import PRELUDE, VenvCache, variables

SUPERVISE = Path(__file__).with_name("supervise.sh")


class LocalRuntime:
    """Each process is in a session of its own, and contained as well as the machine allows."""

    trouble: str | None = ""
    gpu_trouble: str | None = ""

    def __init__(
        self, search_path: str, containment: Containment, venvs: VenvCache, *, runs_as_users: bool
    ) -> None:
        self._runs_as_users = runs_as_users
        self._search_path = search_path
        self._containment = containment
        self._venvs = venvs
        self._children: dict[Key, subprocess.Popen[bytes]] = {}

    def check(self) -> str:
        why = user_process.why_not() if self._runs_as_users else ""
        return f"it cannot start processes: {why}" if why else ""

    def await_ready(self, ready: Callable[[], None]) -> None:
        ready()

    def start(self, entry: Entry, started: Started) -> None:
        try:
            outcome: int | StartRefused | OSError = self._start(entry)
        except (StartRefused, OSError) as error:
            outcome = error
        started(outcome)

    def collect_exit(self, entry: Entry, collected: ExitCollected) -> None:
        # Another worker's supervisor may have got the claim; then this one exited without starting anything.
        collected(self.adopt(entry) if entry.exit_code() is None else None)

    def _start(self, entry: Entry) -> int:
        spec = entry.intent.spec
        if spec is None:
            raise StartRefused("it must not be started")
        places = user_process.places_of(spec) if spec.account else places_on_node(entry, spec)
        around = environment(entry, spec, places, self._search_path)
        venvs = None
        if spec.venv:
            venvs = self._venvs.make_user_dir(entry.intent.cluster, spec.venv, spec.account)
            seen = (user_process.VENVS, user_process.PRELUDE) if spec.account else (venvs, PRELUDE)
            around |= variables(spec.venv, *map(str, seen))
        try:
            arguments = [
                *self._containment.before_supervisor,
                "/bin/sh",
                str(SUPERVISE),
                str(entry.path),
                script(entry, spec, places),
                places.variables,
                self._make_cgroup(entry),
                f"{spec.lease_s:.0f}" if spec.lease_s else "",
                f"{spec.grace_s:g}",
                *output_writer(entry),
                "orphans" if self._containment.adopts_orphans else "",
                *self._containment.before_command(entry.path),
                *(user_process.as_user(spec.account) if spec.account else []),
            ]
            launch = partial(_launch, arguments, around)
            if spec.account:
                give_files(entry, spec)
                child = user_process.start(entry, spec, venvs, launch)
            else:
                child = launch()
        except ValueError as error:
            raise StartRefused(f"it could not be started: {error}") from error
        except OSError as error:
            # Arguments and environment come from the job; everything else is the node's.
            kind = StartRefused if error.errno == errno.E2BIG else NodeFault
            raise kind(f"it could not be started: {error}") from error
        self._children[entry.key] = child
        return os.pidfd_open(child.pid)

    def adopt(self, entry: Entry) -> int | None:
        self._reap(entry)
        known = entry.supervisor()
        pid = known[0] if known else process_tree.find_leader(entry.marker)
        if pid is None:
            return None
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        # First open, then read: a reused process id has another start time.
        stat = read_stat(pid)
        if stat is None or stat.has_ended or (known and stat[:2] != known):
            os.close(descriptor)
            return None
        return descriptor

    def signal(self, entry: Entry, number: int) -> int:
        supervisor = self._supervisor(entry)
        if number and supervisor:
            # It records the exit status, so it is not killed; but it may have been frozen.
            _send(supervisor, signal.SIGCONT if number == signal.SIGKILL else number)
        group = _recorded_cgroup(entry)
        left = cgroup.send(group, number) if group else 0
        if group is None or (left == 0 and number == signal.SIGTERM):
            # It has no cgroup, or has not entered it yet.
            left = process_tree.send(entry.marker, supervisor, entry.output_writer(), number)
        if left == 0 and entry.command_has_ended():
            # Its command has ended, but some process keeps the output open.
            excluded = {
                pid for pid in (entry.output_writer(), supervisor and supervisor[0], os.getpid()) if pid
            }
            left = process_tree.send_holders(entry.pipe, excluded, number)
        return left

    def warn(self, entry: Entry, number: int) -> int:
        return handled_signal.send(partial(self.list_pids, entry), number)

    def find_cgroup(self, entry: Entry) -> Path | None:
        return _recorded_cgroup(entry)

    def list_pids(self, entry: Entry) -> set[int]:
        if group := _recorded_cgroup(entry):
            return cgroup.members(group)
        return process_tree.list_members(entry.marker, self._supervisor(entry), entry.output_writer())

    def command_has_ended(self, entry: Entry) -> bool:
        return entry.command_has_ended()

    def has_exit_status(self, entry: Entry) -> bool:
        return entry.exit_code() is not None

    def remove(self, entry: Entry) -> None:
        self._reap(entry)
        if group := _recorded_cgroup(entry):
            cgroup.remove(group)

    def remove_orphans(self, cluster: str) -> None:
        """There is nothing outside the spool."""

    def list_disks(self) -> list[Path]:
        return []

    def list_written_dirs(self, entry: Entry) -> list[Path]:
        return find_job_dir(entry)

    def shut_down(self) -> None:
        """Nothing was set up."""

    def _make_cgroup(self, entry: Entry) -> str:
        if self._containment.cgroup is None:
            return ""
        group = cgroup.make(self._containment.cgroup, entry.marker)
        if spec := entry.intent.spec:
            cgroup.limit(group, spec.cpus, spec.memory_mib)
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


def _launch(arguments: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


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
