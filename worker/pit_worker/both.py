"""Two runtimes at once: the one of the settings, and the other for what began before they were changed."""

from collections.abc import Callable
from pathlib import Path

from pit_worker.entry import Entry
from pit_worker.runtime import Begun, Runtime, Settled


class Both:
    """Gives each process to the runtime that its order was meant for."""

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

    def await_ready(self, ready: Callable[[], None]) -> None:
        self._chosen.await_ready(ready)

    def start(self, entry: Entry, begun: Begun) -> None:
        self._find(entry).start(entry, begun)

    def adopt(self, entry: Entry) -> int | None:
        return self._find(entry).adopt(entry)

    def settle(self, entry: Entry, settled: Settled) -> None:
        self._find(entry).settle(entry, settled)

    def signal(self, entry: Entry, number: int) -> int:
        return self._find(entry).signal(entry, number)

    def is_over(self, entry: Entry) -> bool:
        return self._find(entry).is_over(entry)

    def has_exited(self, entry: Entry) -> bool:
        return self._find(entry).has_exited(entry)

    def remove(self, entry: Entry) -> None:
        self._find(entry).remove(entry)

    def clear(self, cluster: str) -> None:
        self._docker.clear(cluster)
        self._local.clear(cluster)

    def disks(self) -> list[Path]:
        return [*self._docker.disks(), *self._local.disks()]

    def list_filled(self, entry: Entry) -> list[Path]:
        return self._find(entry).list_filled(entry)

    def leave(self) -> None:
        self._docker.leave()
        self._local.leave()

    def _find(self, entry: Entry) -> Runtime:
        return self._docker if is_container(entry) else self._local


def is_container(entry: Entry) -> bool:
    """Whether its order was for a node that runs containers."""
    spec = entry.intent.spec
    return spec is not None and spec.container is not None
