"""A head with many waiting jobs."""

import subprocess
import time
import uuid

from sqlalchemy import insert, select

from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit
from bench.table import Row, percentile, seconds, time_row
from pit_protocol.states import JobState
from pit_server.db.database import Database
from pit_server.db.models import Job
from pit_server.wakeups import Wakeups
from tests.support.clusters.local import PIT, Cluster, eventually


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    waiting = sizes.waiting_jobs
    slots = cluster.json("show", "nodes")["nodes"][0]["slots"]
    with connect(cluster) as head:
        code = snapshot(cluster, head)
        blocker = submit(head, code, "sleep 600", f"{slots}:[]").number
        eventually(lambda: head.job(blocker).state == "running")
        fill_queue(cluster, blocker, waiting)
        times = [seconds(lambda: submit(head, code, "true")) for _ in range(sizes.submissions)]
        statuses = [seconds(lambda: _status(cluster)) for _ in range(sizes.status_calls)]
        if (found := head.status().totals.waiting) < waiting:
            raise RuntimeError(f"only {found:,} jobs were waiting")
        head.stop(blocker)
    return [
        time_row(f"pit status, {waiting:,} waiting, slowest of {sizes.status_calls}", max(statuses), 1.0),
        time_row(f"submit, {waiting:,} waiting, p50", percentile(times, 0.5), 0.05),
        time_row(f"submit, {waiting:,} waiting, p99", percentile(times, 0.99), 0.2),
    ]


def _status(cluster: Cluster) -> None:
    subprocess.run(
        [str(PIT), "status"], env=cluster.env, cwd=cluster.project.path, capture_output=True, check=True
    )


def fill_queue(cluster: Cluster, like: int, count: int) -> None:
    """Insert waiting jobs directly into the database, because preparing each would take too long."""
    database = Database(f"sqlite:///{cluster.home / 'head' / 'pit.db'}", Wakeups())
    with database.write() as session:
        row = session.execute(select(Job.__table__).where(Job.id == like)).mappings().one()
        job = {
            **row,
            "state": JobState.WAITING,
            "request": "2:[]",
            "created_at": time.time(),
            "since": time.time(),
        }
        del job["id"]
        session.execute(insert(Job), [{**job, "submission_key": uuid.uuid4().hex} for _ in range(count)])
    database.dispose()
