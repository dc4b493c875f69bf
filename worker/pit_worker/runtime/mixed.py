"""Two runtimes at once: the one in the settings, and the other for processes from before they changed."""

from collections.abc import Callable
from pathlib import Path

from pit_protocol.sessions.frames import Start
from pit_worker.runtime.base import ExitCollected, Runtime, Started
from pit_worker.runtime.inside.command_pid import Entrance
from pit_worker.runtime.inside.local_command import Inside
from pit_worker.spool.entry import Entry


class MixedRuntime:
    """Passes each process to the runtime that its order was meant for."""

    def __init__(self, chosen: Runtime, docker: Runtime, local: Runtime) -> None:
        self._chosen = chosen
        self._docker = docker
        self._local = local

    @property
    def trouble(self) -> str | None:
        return self._chosen.trouble

    @property
    def gpu_trouble(self) -> str | None:
        return self._chosen.gpu_trouble

    def check(self) -> str:
        return self._chosen.check()

    def await_ready(self, ready: Callable[[], None]) -> None:
        self._chosen.await_ready(ready)

    def start(self, entry: Entry, started: Started) -> None:
        self._find(entry).start(entry, started)

    def adopt(self, entry: Entry) -> int | None:
        return self._find(entry).adopt(entry)

    def collect_exit(self, entry: Entry, collected: ExitCollected) -> None:
        self._find(entry).collect_exit(entry, collected)

    def signal(self, entry: Entry, number: int) -> int:
        return self._find(entry).signal(entry, number)

    def warn(self, entry: Entry, number: int) -> int:
        return self._find(entry).warn(entry, number)

    def find_cgroup(self, entry: Entry) -> Path | None:
        return self._find(entry).find_cgroup(entry)

    def list_pids(self, entry: Entry) -> set[int]:
        return self._find(entry).list_pids(entry)

    def command_has_ended(self, entry: Entry) -> bool:
        return self._find(entry).command_has_ended(entry)

    def has_exit_status(self, entry: Entry) -> bool:
        return self._find(entry).has_exit_status(entry)

    def remove(self, entry: Entry) -> None:
        self._find(entry).remove(entry)

    def remove_orphans(self, cluster: str) -> None:
        self._docker.remove_orphans(cluster)
        self._local.remove_orphans(cluster)

    def list_disks(self) -> list[Path]:
        return [*self._docker.list_disks(), *self._local.list_disks()]

    def list_written_dirs(self, entry: Entry) -> list[Path]:
        return self._find(entry).list_written_dirs(entry)

    def enter(self, entry: Entry, start: Start, session: str) -> tuple[Inside, Entrance]:
        return self._find(entry).enter(entry, start, session)

    def hold(self, entry: Entry) -> Entrance:
        return self._find(entry).hold(entry)

    def shut_down(self) -> None:
        self._docker.shut_down()
        self._local.shut_down()

    def _find(self, entry: Entry) -> Runtime:
        return self._docker if is_container(entry) else self._local


def is_container(entry: Entry) -> bool:
    """Whether it was ordered to run in a container."""
    spec = entry.intent.spec
    return spec is not None and spec.container is not None
