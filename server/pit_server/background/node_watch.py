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
from pit_server.services.jobs.processes.lost_processes import LeaseTerm
from pit_server.services.nodes import nodes
from pit_server.settings import BEATS_IN_LEASE, Settings
from pit_server.wakeups import NODE_WATCH

log = logging.getLogger(__name__)


LISTENING_PER_S = 40  # quiet beats of all nodes together
REPORTING_PER_S = 10  # full ones without changes
OF_OFFLINE = 5 / 6  # the longest hold, as a share of `offline_after_s`: the next beat has to come in time


class Pace(NamedTuple):
    """How often a node without news sends beats."""

    hold_s: float
    report_s: float


def find_pace(settings: Settings, online: int) -> Pace:
    """With more nodes each sends less often, but no node or process goes for lost because of that."""
    longest = OF_OFFLINE * settings.offline_after_s
    if settings.lost_after_s:
        longest = min(longest, settings.lost_after_s / BEATS_IN_LEASE)
    hold_s = max(settings.hold_s, min(online / LISTENING_PER_S, longest))
    return Pace(hold_s, max(settings.hold_s, online / REPORTING_PER_S))


class NodeWatch:
    """Leases are in memory, on the monotonic clock: a restart of the head renews all of them."""

    term: LeaseTerm | None = None  # of process leases; None: processes have no leases

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database, self._lease_s = database, lease_s
        self._lock = threading.Lock()
        with database.read() as session:
            online = session.execute(select(Node.id).where(Node.state == NodeState.ONLINE)).scalars().all()
            occupied = lost_processes.list_occupied(session)
        self._heard = dict.fromkeys(online, time.monotonic())  # online nodes: time of the last beat
        self._silent = dict.fromkeys(set(occupied) - set(online), time.monotonic())  # offline ones

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

    def lost_in_s(self, node_id: int, attempt_id: int) -> float | None:
        """When the attempt's processes on a silent node are marked lost; None: never."""
        with self._lock:
            heard = self._silent.get(node_id)
        if heard is None or self.term is None or attempt_id <= self.term.after:
            return None
        return max(0.0, heard + self.term.silence_s - time.monotonic())

    def __call__(self) -> float | None:
        now = time.monotonic()
        for node_id, heard in self._expired(self._heard, self._lease_s, now):
            with self._database.write() as session:
                last_heard = time.time() - (time.monotonic() - heard)
                nodes.set_state(session, node_id, NodeState.OFFLINE, now=last_heard)
            self._mark_silent(node_id, heard)
        if self.term:
            for node_id, heard in self._expired(self._silent, self.term.silence_s, now):
                self._expire(node_id, heard, self.term)
        with self._lock:
            ends = [heard + self._lease_s for heard in self._heard.values()]
            ends += [heard + self.term.silence_s for heard in self._silent.values() if self.term]
        return max(min(ends) - now, 0.0) if ends else None

    def _expired(self, since: dict[int, float], most_s: float, now: float) -> list[tuple[int, float]]:
        with self._lock:
            return sorted((node_id, heard) for node_id, heard in since.items() if now - heard >= most_s)

    def _mark_silent(self, node_id: int, heard: float) -> None:
        """Move a node to the silent ones; if a beat came meanwhile, the next beat puts it online again."""
        with self._lock:
            if self._heard.get(node_id) == heard:
                del self._heard[node_id]
                self._silent[node_id] = heard

    def _expire(self, node_id: int, heard: float, term: LeaseTerm) -> None:
        with self._database.write() as session:
            numbers = lost_processes.expire_leases(session, node_id, term, now=time.time())
        if numbers:
            log.warning("node %d did not come back; lost jobs: %s", node_id, numbers)
        with self._lock:
            if self._silent.get(node_id) == heard:
                del self._silent[node_id]
