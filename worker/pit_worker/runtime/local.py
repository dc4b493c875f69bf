"""Processes of this machine itself, each under a supervisor of its own."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pit_protocol.sessions.frames import Start
from pit_protocol.system.procfs import read_stat
from pit_worker.loop import Loop
from pit_worker.runtime import cgroup, handled_signal, process_tree, user_process
from pit_worker.runtime.base import NOT_THERE, ExitCollected, Started, find_job_dir, give_files
from pit_worker.runtime.containment import Containment
from pit_worker.runtime.fork_server import ForkServer
from pit_worker.runtime.inside import command_pid
from pit_worker.runtime.inside.command_pid import Entrance
from pit_worker.runtime.inside.local_command import Inside, LocalCommand, Place
from pit_worker.spool.entry import Entry, Key
from pit_worker.spool.environment import (
    NodeFault,
    StartRefused,
    check_variables,
    environment,
    places_on_node,
    script,
)
from pit_worker.supervisor.launch import Launch
from pit_worker.venv.cache import PRELUDE, VenvCache, variables


class LocalRuntime:
    """Each process is in a session of its own, and contained as well as the machine allows."""

    trouble: str | None = ""
    gpu_trouble: str | None = ""

    def __init__(
        self, loop: Loop, search_path: str, containment: Containment, venvs: VenvCache, *, runs_as_users: bool
    ) -> None:
        self._fork_server = ForkServer(loop)
        self._runs_as_users = runs_as_users
        self._search_path = search_path
        self._containment = containment
        self._venvs = venvs
        self._pids: dict[Key, int] = {}  # of supervisors that this worker started

    def check(self) -> str:
        why = user_process.why_not() if self._runs_as_users else ""
        return f"it cannot start processes: {why}" if why else ""

    def await_ready(self, ready: Callable[[], None]) -> None:
        ready()

    def start(self, entry: Entry, started: Started) -> None:
        try:
            self._start(entry, started)
        except (StartRefused, OSError) as error:
            started(error)

    def collect_exit(self, entry: Entry, collected: ExitCollected) -> None:
        # Another worker's supervisor may have got the claim; then this one exited without starting anything.
        collected(self.adopt(entry) if entry.exit_code() is None else None)

    def _start(self, entry: Entry, started: Started) -> None:
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
        check_variables({**around, **spec.variables})
        account = spec.account
        try:
            launch = Launch(
                directory=str(entry.path),
                script=script(entry, spec, places),
                environment=around,
                variables=dict(spec.variables),
                keep=entry.output_bytes,
                cgroup=self._make_cgroup(entry),
                lease_s=spec.lease_s or 0.0,
                grace_s=spec.grace_s,
                account=(account.uid, account.gid, list(account.gids)) if account else None,
                is_namespaced=self._containment.is_namespaced,
                adopts_orphans=self._containment.adopts_orphans,
            )
            mounts = None
            if account:
                give_files(entry, spec)
                mounts = user_process.make_mounts(entry, spec, venvs)
            try:
                self._fork_server.launch(launch, mounts, partial(self._on_launched, entry, started))
            finally:
                if mounts is not None:
                    os.close(mounts)
        except OSError as error:
            raise NodeFault(f"it could not be started: {error}") from error

    def _on_launched(self, entry: Entry, started: Started, outcome: tuple[int, int] | OSError) -> None:
        if isinstance(outcome, OSError):
            started(outcome)
        else:
            self._pids[entry.key] = outcome[0]
            started(outcome[1])

    def adopt(self, entry: Entry) -> int | None:
        known = entry.supervisor()
        if known is None:
            return None
        try:
            descriptor = os.pidfd_open(known[0])
        except ProcessLookupError:
            return None
        # First open, then read: a reused process id has another start time.
        stat = read_stat(known[0])
        if stat is None or stat.has_ended or stat[:2] != known:
            os.close(descriptor)
            return None
        return descriptor

    def signal(self, entry: Entry, number: int) -> int:
        if entry.has_empty_tree():
            return 0  # its supervisor saw to that, so nobody has to search all processes
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
        supervisor = self._supervisor(entry)
        members = process_tree.list_members(entry.marker, supervisor, entry.output_writer())
        if self._containment.is_namespaced and supervisor:
            # The first process of the namespace is not the job's.
            members = {pid for pid in members if (stat := read_stat(pid)) and stat.parent != supervisor[0]}
        return members

    def command_has_ended(self, entry: Entry) -> bool:
        return entry.command_has_ended()

    def has_exit_status(self, entry: Entry) -> bool:
        return entry.exit_code() is not None

    def remove(self, entry: Entry) -> None:
        self._pids.pop(entry.key, None)
        if group := _recorded_cgroup(entry):
            cgroup.remove(group)

    def remove_orphans(self, cluster: str) -> None:  # noqa: ARG002
        """There is nothing outside the spool; but this thread has other mounts than in the last session."""
        self._fork_server.close()

    def list_disks(self) -> list[Path]:
        return []

    def list_written_dirs(self, entry: Entry) -> list[Path]:
        return find_job_dir(entry)

    def hold(self, entry: Entry) -> Entrance:
        supervisor = self._supervisor(entry)
        stat = read_stat(supervisor[0]) if supervisor else None
        if supervisor is None or stat is None or stat[:2] != supervisor or entry.command_has_ended():
            raise NOT_THERE
        pid = command_pid.find_command(supervisor[0], entry.output_writer())
        found = command_pid.hold(pid) if pid else None
        # Looked at again: only below this supervisor is it the process that it was.
        if found is None or command_pid.find_command(supervisor[0], entry.output_writer()) != found.pid:
            raise NOT_THERE
        return found

    def enter(self, entry: Entry, start: Start, session: str) -> tuple[Inside, Entrance]:
        spec, entrance = entry.intent.spec, self.hold(entry)
        env = command_pid.read_environment(entrance.pid)
        if "PIT_COOKIE" not in env and spec:
            places = user_process.places_of(spec) if spec.account else places_on_node(entry, spec)
            env = {**environment(entry, spec, places, self._search_path), **spec.variables}
        group = _recorded_cgroup(entry)
        place = Place(
            entrance,
            env,
            env.get("SRC_DIR", "/"),
            str(group) if group else "",
            spec.account if spec else None,
            ("mnt", "pid") if os.geteuid() == 0 else (),
        )
        return LocalCommand(place, start, session), entrance

    def shut_down(self) -> None:
        self._fork_server.close()

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
        pid = self._pids.get(entry.key)
        stat = read_stat(pid) if pid else None
        return stat[:2] if stat else None


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
