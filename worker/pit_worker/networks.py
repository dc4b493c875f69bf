"""Private networks: one per attempt of a job on this node, made by its first process, gone with its last."""

import threading
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

from pit_worker.engine import Engine, EngineRefused
from pit_worker.entry import Key
from pit_worker.environment import StartRefused
from pit_worker.firewall import Firewall, bridge_name
from pit_worker.subnets import choose, read_routes

OVERLAPS = "overlap"  # in what the engine says of a subnet that is in use
TRIES = 100
MORE = "`network_pool` in its worker.toml gives more"
FULL = "no addresses are left for another network"


class Networks:
    """Knows who of this worker's needs which network; any thread may ask."""

    def __init__(self, engine: Engine, spool: Path, pools: Sequence[IPv4Network], firewall: Firewall) -> None:
        self._engine = engine
        self._spool = spool
        self._pools = pools
        self._firewall = firewall
        self._users: dict[str, set[Key]] = {}
        self._starved: set[Key] = set()  # who waits for a network until there are addresses again
        self._lock = threading.Lock()  # never held while the engine is asked
        self._gate = threading.Lock()  # so that one is not made twice, nor removed while it is made

    @property
    def trouble(self) -> str:
        """Why there can be no more of them; empty if there can."""
        return f"{FULL}; {MORE}" if self._starved else ""

    def hold(self, name: str, key: Key, labels: Mapping[str, str], containers: int = 1) -> None:
        """See that it is there for so many, and stays while `key` holds it.

        Raises StartRefused, or OSError while all addresses are taken.
        """
        with self._gate:
            self.note(name, key)
            try:
                if not self._engine.has_network(name):
                    self._firewall.keep_up()
                    self._add(name, labels, containers, key)
                self._starved.discard(key)
            except EngineRefused as error:
                raise StartRefused(f"its network could not be made: {error}") from error

    def _add(self, name: str, labels: Mapping[str, str], containers: int, key: Key) -> None:
        if not any(choose(self._pools, containers, (), name)):
            raise StartRefused(f"this node never has addresses for {containers} containers; {MORE}")
        taken = [*read_routes(), *self._engine.list_subnets()]
        for subnet in islice(choose(self._pools, containers, taken, name), TRIES):
            try:
                self._engine.add_network(name, labels, subnet, bridge_name(self._spool, name))
            except EngineRefused as error:
                # Another worker of this machine may have been faster.
                if OVERLAPS not in str(error):
                    raise
            else:
                return
        self._starved.add(key)
        raise OSError(f"{FULL}: {MORE}")

    def note(self, name: str, key: Key) -> None:
        """One that runs already holds it."""
        with self._lock:
            self._users.setdefault(name, set()).add(key)

    def release(self, name: str, key: Key) -> None:
        with self._gate:
            with self._lock:
                users = self._users.get(name, set())
                users.discard(key)
                self._starved.discard(key)
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
        """Raise StartRefused unless there is such a network, which an admin has made, or may be."""
        # In a swarm, a node that does not lead it sees a network only while a container is on it.
        if not self._engine.has_network(name) and not self._engine.is_in_swarm():
            raise StartRefused(explain_lack(name))


def explain_lack(name: str) -> str:
    return f"this node has no network {name}; an admin makes it by `docker network create`"
