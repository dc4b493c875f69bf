"""The watching duty: a node that has been silent for longer than its lease is offline."""

import threading
import time

from sqlalchemy import select

from pit_protocol.states import NodeState
from pit_server.bells import WATCHER
from pit_server.db.database import Database
from pit_server.db.models import Node
from pit_server.services import nodes


class Watching:
    """Leases live in memory, on the monotonic clock: after a restart of the head all begin anew."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database, self._lease_s = database, lease_s
        self._lock = threading.Lock()
        self._heard: dict[int, float] = {}
        with database.read() as session:
            online = session.execute(select(Node.id).where(Node.state == NodeState.ONLINE)).scalars()
            self._heard.update((node_id, time.monotonic()) for node_id in online)

    def hear(self, node_id: int) -> None:
        """A node has spoken: its lease begins anew."""
        with self._lock:
            is_new = node_id not in self._heard
            self._heard[node_id] = time.monotonic()
        if is_new:
            self._database.bells.ring([WATCHER])

    def __call__(self) -> float | None:
        now = time.monotonic()
        with self._lock:
            silent = [node for node, heard in self._heard.items() if now - heard >= self._lease_s]
            for node_id in silent:
                del self._heard[node_id]
            next_end = min(self._heard.values(), default=None)
        if silent:
            with self._database.write() as session:
                for node_id in sorted(silent):
                    nodes.set_state(session, node_id, NodeState.OFFLINE, now=time.time())
        return None if next_end is None else max(next_end + self._lease_s - now, 0.0)
