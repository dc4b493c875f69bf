"""Private networks: one per attempt of a job on this node, from its first process to its last."""

import threading
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

from pit_worker.runtime.docker.engine import Engine, EngineRefused
from pit_worker.runtime.docker.network.firewall import Firewall, bridge_name
from pit_worker.runtime.docker.network.subnets import choose, read_routes
from pit_worker.spool.entry import Key
from pit_worker.spool.environment import NodeFault

OVERLAPS = "overlap"  # in the engine's error for a subnet that is in use
MAX_TRIES = 100
MORE = "`network_pool` in its worker.toml gives more"
FULL = "no addresses are left for another network"


class Networks:
    """Knows which processes of this worker need which network; any thread may call."""

    def __init__(self, engine: Engine, spool: Path, pools: Sequence[IPv4Network], firewall: Firewall) -> None:
        self._engine = engine
        self._spool = spool
        self._pools = pools
        self._firewall = firewall
        self._users: dict[str, set[Key]] = {}
        self._waiting: set[Key] = set()  # processes that wait until there are addresses again
        self._lock = threading.Lock()  # never held during a call to the engine
        self._engine_lock = threading.Lock()  # no network is created twice, or removed while it is created

    @property
    def trouble(self) -> str:
        """Why there can be no more of them; empty if there can."""
        return f"{FULL}; {MORE}" if self._waiting else ""

    def acquire(self, name: str, key: Key, labels: Mapping[str, str], containers: int = 1) -> None:
        """Create the network for so many containers unless it exists; it stays until `key` releases it.

        Raises NodeFault, or OSError while all addresses are taken.
        """
        with self._engine_lock:
            self.add_user(name, key)
            try:
                if not self._engine.has_network(name):
                    self._firewall.ensure()
                    self._add(name, labels, containers, key)
                self._waiting.discard(key)
            except EngineRefused as error:
                raise NodeFault(f"its network could not be created: {error}") from error

    def _add(self, name: str, labels: Mapping[str, str], containers: int, key: Key) -> None:
        if not any(choose(self._pools, containers, (), name)):
            raise NodeFault(f"this node cannot have addresses for {containers} containers; {MORE}")
        taken = [*read_routes(), *self._engine.list_subnets()]
        for subnet in islice(choose(self._pools, containers, taken, name), MAX_TRIES):
            try:
                self._engine.add_network(name, labels, subnet, bridge_name(self._spool, name))
            except EngineRefused as error:
                # Another worker of this machine may have taken it.
                if OVERLAPS not in str(error):
                    raise
            else:
                return
        self._waiting.add(key)
        raise OSError(f"{FULL}: {MORE}")

    def add_user(self, name: str, key: Key) -> None:
        """Note that a process uses it."""
        with self._lock:
            self._users.setdefault(name, set()).add(key)

    def release(self, name: str, key: Key) -> None:
        with self._engine_lock:
            with self._lock:
                users = self._users.get(name, set())
                users.discard(key)
                self._waiting.discard(key)
                if users:
                    return
                self._users.pop(name, None)
            self._engine.remove_network(name)

    def remove_unused(self, labels: Mapping[str, str]) -> None:
        """Remove those that no process uses."""
        for name in self._engine.list_networks(labels):
            with self._engine_lock:
                with self._lock:
                    is_held = name in self._users
                if not is_held:
                    self._engine.remove_network(name)

    def check(self, name: str) -> None:
        """Before a container joins an overlay; raises NodeFault if this node can tell that it has none."""
        # In a swarm, a node that is not a manager sees a network only while a container is on it.
        if not self._engine.has_network(name) and not self._engine.is_in_swarm():
            raise NodeFault(explain_missing(name))
        self._firewall.ensure()


def explain_missing(name: str) -> str:
    return f"this node has no network {name}; an admin can create it with `docker network create`"
