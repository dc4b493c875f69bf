"""Private networks: one per attempt of a job on this node, made by its first process, gone with its last."""

import threading
from collections.abc import Mapping

from pit_worker.engine import Engine, EngineRefused
from pit_worker.entry import Key
from pit_worker.environment import StartRefused

NO_POOL = "non-overlapping IPv4 address pool"


class Networks:
    """Knows who of this worker's needs which network; any thread may ask."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users: dict[str, set[Key]] = {}
        self._lock = threading.Lock()  # never held while the engine is asked
        self._gate = threading.Lock()  # so that one is not made twice, nor removed while it is made

    def hold(self, name: str, key: Key, labels: Mapping[str, str]) -> None:
        """See that it is there, and stays while `key` holds it; raises StartRefused."""
        with self._gate:
            self.note(name, key)
            try:
                if not self._engine.has_network(name):
                    self._engine.add_network(name, labels)
            except EngineRefused as error:
                raise StartRefused(_explain(str(error))) from error

    def note(self, name: str, key: Key) -> None:
        """One that runs already holds it."""
        with self._lock:
            self._users.setdefault(name, set()).add(key)

    def release(self, name: str, key: Key) -> None:
        with self._gate:
            with self._lock:
                users = self._users.get(name, set())
                users.discard(key)
                if users:
                    return
                self._users.pop(name, None)
            self._engine.remove_network(name)

    def clear(self, labels: Mapping[str, str]) -> None:
        """Remove those that nobody holds."""
        for name in self._engine.list_networks(labels):
            with self._gate:
                with self._lock:
                    is_held = name in self._users
                if not is_held:
                    self._engine.remove_network(name)

    def check(self, name: str) -> None:
        """Raise StartRefused unless there is such a network, which an admin has made."""
        if not self._engine.has_network(name):
            hint = "an admin makes it by `docker network create`"
            raise StartRefused(f"this node has no network {name}; {hint}")


def _explain(text: str) -> str:
    if NO_POOL in text:
        hint = "`default-address-pools` in its daemon.json gives more"
        return f"this node has no addresses left for another network; {hint}"
    return f"its network could not be made: {text}"
