"""The watching duty: a silent node is offline after its lease, and what ran there is lost after its own."""

import logging
import threading
import time

from sqlalchemy import select

from pit_protocol.states import NodeState
from pit_server.bells import WATCHER
from pit_server.db.database import Database
from pit_server.db.models import Node
from pit_server.services import losses, nodes
from pit_server.services.losses import Term

log = logging.getLogger(__name__)


class Watching:
    """Leases live in memory, on the monotonic clock: after a restart of the head all begin anew."""

    term: Term | None = None  # of processes' own leases; None: they have none

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database, self._lease_s = database, lease_s
        self._lock = threading.Lock()
        with database.read() as session:
            online = session.execute(select(Node.id).where(Node.state == NodeState.ONLINE)).scalars().all()
            occupied = losses.list_occupied(session)
        self._heard = dict.fromkeys(online, time.monotonic())  # nodes that are there: when they last spoke
        self._silent = dict.fromkeys(set(occupied) - set(online), time.monotonic())  # and those that are not

    def hear(self, node_id: int) -> None:
        """A node has spoken: its lease begins anew."""
        with self._lock:
            is_new = node_id not in self._heard
            self._heard[node_id] = time.monotonic()
            self._silent.pop(node_id, None)
        if is_new:
            self._database.bells.ring([WATCHER])

    def __call__(self) -> float | None:
        now = time.monotonic()
        for node_id, heard in self._over(self._heard, self._lease_s, now):
            with self._database.write() as session:
                nodes.set_state(session, node_id, NodeState.OFFLINE, now=time.time())
            self._note(node_id, heard)
        if self.term:
            for node_id, heard in self._over(self._silent, self.term.silence_s, now):
                self._expire(node_id, heard, self.term)
        with self._lock:
            ends = [heard + self._lease_s for heard in self._heard.values()]
            ends += [heard + self.term.silence_s for heard in self._silent.values() if self.term]
        return max(min(ends) - now, 0.0) if ends else None

    def _over(self, since: dict[int, float], most_s: float, now: float) -> list[tuple[int, float]]:
        with self._lock:
            return sorted((node_id, heard) for node_id, heard in since.items() if now - heard >= most_s)

    def _note(self, node_id: int, heard: float) -> None:
        """It is offline; if it has spoken meanwhile, its next word puts it online again."""
        with self._lock:
            if self._heard.get(node_id) == heard:
                del self._heard[node_id]
                self._silent[node_id] = heard

    def _expire(self, node_id: int, heard: float, term: Term) -> None:
        with self._database.write() as session:
            numbers = losses.expire(session, node_id, term, now=time.time())
        if numbers:
            log.warning("node %d does not come back; lost are the jobs %s", node_id, numbers)
        with self._lock:
            if self._silent.get(node_id) == heard:
                del self._silent[node_id]
