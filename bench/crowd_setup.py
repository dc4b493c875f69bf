"""What benchmarks with many nodes and users share: their tokens, and what the head uses meanwhile."""

import http.client
import os
import resource
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.crowd_client import Place
from bench.table import Row, percentile, seconds, time_row
from pit_protocol import API_PREFIX
from pit_protocol.version_check import HEADERS
from pit_server.db.database import Database
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.wakeups import Wakeups
from tests.support.clusters.local import Cluster

GOAL_S = 0.1
PROBES_PER_S = 20


class Probe:
    """The times of requests, and what the head used meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self.times: list[float] = []
        self._pids = _family(cluster.pid("head"))
        self._cpu, self.began = self._cpu_s(), time.monotonic()

    def finish(self) -> None:
        self.cores = (self._cpu_s() - self._cpu) / (time.monotonic() - self.began)
        self.mib = sum(_resident(pid) for pid in self._pids) / 1024

    def rows(self, name: str) -> list[Row]:
        return [
            time_row(f"short request, {name}, p50", percentile(self.times, 0.5), GOAL_S),
            time_row(f"short request, {name}, p99", percentile(self.times, 0.99), GOAL_S),
            Row(f"head's memory and cores, {name}", f"{self.mib:.0f} MiB, {self.cores:.2f}"),
        ]

    def _cpu_s(self) -> float:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(line[11]) + int(line[12]) for line in fields) / os.sysconf("SC_CLK_TCK")


def probe(cluster: Cluster, place: Place, token: str, count: int) -> Probe:
    """Ask for something short at a steady rate."""
    probed = Probe(cluster)
    connection = http.client.HTTPConnection(*place, timeout=120)
    headers = {"Authorization": f"Bearer {token}", **HEADERS}
    for index in range(count):
        time.sleep(max(0.0, probed.began + index / PROBES_PER_S - time.monotonic()))

        def ask() -> None:
            connection.request("GET", f"{API_PREFIX}/me", headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"a short request was answered with {answer.status}")

        probed.times.append(seconds(ask))
    connection.close()
    probed.finish()
    return probed


def admit(cluster: Cluster, node_count: int, user_count: int, *, admins: bool) -> tuple[list[str], list[str]]:
    """The tokens of new nodes and of new users; written directly to the database."""
    database = Database(f"sqlite:///{cluster.home / 'head' / 'pit.db'}", Wakeups())
    now = time.time()
    with database.write() as session:
        joined = [nodes.add(session, f"crowd{index}", now=now) for index in range(node_count)]
        of_nodes = [tokens.issue(session, node_id=one.id, now=now, expires_at=None)[1] for one in joined]
        users = [
            accounts.add(session, f"crowd{index}", is_admin=admins, now=now) for index in range(user_count)
        ]
        of_users = [tokens.issue(session, user_id=one.id, now=now, expires_at=None)[1] for one in users]
    database.dispose()
    return of_nodes, of_users


def find_place(url: str) -> Place:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def raise_limit() -> None:
    """Allow this process as many connections as it may have."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


def _family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def _resident(pid: int) -> int:
    """KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
