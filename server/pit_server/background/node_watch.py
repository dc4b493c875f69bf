"""Node leases: a silent node goes offline when its lease ends, its processes are lost when theirs end."""

import logging
import threading
import time
from typing import NamedTuple

from sqlalchemy import select

from pit_protocol.states import NodeState
from pit_server.db.database import Database
from pit_server.db.models import Node
from pit_server.services.jobs.processes import lost_processes
from pit_server.services.nodes import nodes
from pit_server.settings import BEATS_IN_LEASE, Settings
from pit_server.wakeups import NODE_WATCH

log = logging.getLogger(__name__)


LISTENING_PER_S = 40  # quiet beats of all nodes together
REPORTING_PER_S = 10  # full ones without changes
MANY = 2  # silent nodes are given up, however few others are online
OF_OFFLINE = 5 / 6  # the longest hold, as a share of `offline_after_s`: the next beat has to come in time


class Pace(NamedTuple):
    """How often a node without news sends beats."""

    hold_s: float
    report_s: float


def find_pace(settings: Settings, online: int) -> Pace:
    """With more nodes each sends less often, but no node or process goes for lost because of that."""
    longest = OF_OFFLINE * settings.offline_after_s
    longest = min(longest, settings.shortest_lease_s / BEATS_IN_LEASE)
    hold_s = max(settings.hold_s, min(online / LISTENING_PER_S, longest))
    return Pace(hold_s, max(settings.hold_s, online / REPORTING_PER_S))


class NodeWatch:
    """Leases are in memory, on the monotonic clock: a restart of the head renews all of them."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database, self._lease_s = database, lease_s
        self._lock = threading.Lock()
        with database.read() as session:
            online = session.execute(select(Node.id).where(Node.state == NodeState.ONLINE)).scalars().all()
            occupied = lost_processes.list_occupied(session)
        self._heard = dict.fromkeys(online, time.monotonic())  # online nodes: time of the last beat
        self._silent = dict.fromkeys(set(occupied) - set(online), time.monotonic())  # offline ones

        self._waits = False  # most nodes are silent, so that none is given up

    def renew(self, node_id: int) -> None:
        """Renew a node's lease after a beat."""
        with self._lock:
            is_new = node_id not in self._heard
            self._heard[node_id] = time.monotonic()
            self._silent.pop(node_id, None)
        if is_new:
            self._database.wakeups.notify([NODE_WATCH])

    def count_online(self) -> int:
        with self._lock:
            return len(self._heard)

    def lost_in_s(self, node_id: int, silence_s: float | None) -> float | None:
        """When processes with this lease on a silent node are marked lost; None: never."""
        with self._lock:
            heard = self._silent.get(node_id)
        if heard is None or silence_s is None or self._waits:
            return None
        return max(0.0, heard + silence_s - time.monotonic())

    def __call__(self) -> float | None:
        now = time.monotonic()
        for node_id, heard in self._list_expired(now):
            with self._database.write() as session:
                last_heard = time.time() - (time.monotonic() - heard)
                nodes.set_state(session, node_id, NodeState.OFFLINE, now=last_heard)
            self._mark_silent(node_id, heard)
        ends = self._expire_leases(now)
        with self._lock:
            ends += [heard + self._lease_s for heard in self._heard.values()]
        return max(min(ends) - now, 0.0) if ends else None

    def _list_expired(self, now: float) -> list[tuple[int, float]]:
        with self._lock:
            return sorted((n, heard) for n, heard in self._heard.items() if now - heard >= self._lease_s)

    def _mark_silent(self, node_id: int, heard: float) -> None:
        """Move a node to the silent ones; if a beat came meanwhile, the next beat puts it online again."""
        with self._lock:
            if self._heard.get(node_id) == heard:
                del self._heard[node_id]
                self._silent[node_id] = heard

    def _expire_leases(self, now: float) -> list[float]:
        """Mark processes of silent nodes lost whose leases are over; returns when the next ones end."""
        with self._lock:
            silent = dict(self._silent)
        if not silent:
            return []
        with self._database.read() as session:
            leases = lost_processes.list_leases(session, silent)
        with self._lock:
            # Then it is the head that is cut off. It acts when most are back, or when an admin gives them up.
            self._waits = len(leases) > max(MANY, len(self._heard))
        if self._waits:
            log.warning(
                "%d nodes with processes are silent; none is given up before most are back", len(leases)
            )
            return []
        for node_id, of_node in sorted(leases.items()):
            if now - silent[node_id] >= of_node[0]:
                self._expire(node_id, now - silent[node_id])
        return [
            silent[node_id] + silence_s
            for node_id, of_node in leases.items()
            for silence_s in of_node
            if now - silent[node_id] < silence_s
        ]

    def _expire(self, node_id: int, silent_s: float) -> None:
        with self._database.write() as session:
            numbers = lost_processes.expire_leases(session, node_id, silent_s, now=time.time())
        log.warning("node %d did not come back; lost processes of jobs: %s", node_id, numbers)
