"""A head with ten thousand waiting jobs."""

import subprocess
import time
import uuid

from sqlalchemy import insert, select

from bench.submitting import connect, snapshot, submit
from bench.table import Row, percentile, seconds, time_row
from pit_protocol.states import JobState
from pit_server.bells import Bells
from pit_server.db.database import Database
from pit_server.db.models import Job
from tests.e2e.cluster import PIT, Cluster, eventually

WAITING = 10_000
SUBMISSIONS = 200


def measure(cluster: Cluster) -> list[Row]:
    code = snapshot(cluster)
    slots = cluster.json("show", "nodes")["nodes"][0]["slots"]
    with connect(cluster) as head:
        blocker = submit(head, code, "sleep 600", f"{slots}:[]")["number"]
        eventually(lambda: head.job(blocker)["state"] == "running")
        _fill(cluster, blocker)
        times = [seconds(lambda: submit(head, code, "true")) for _ in range(SUBMISSIONS)]
        statuses = [seconds(lambda: _status(cluster)) for _ in range(10)]
        assert head.status()["totals"]["waiting"] >= WAITING
        head.stop(blocker)
    return [
        time_row(f"pit status, {WAITING:,} waiting, slowest of 10", max(statuses), 1.0),
        time_row(f"submit, {WAITING:,} waiting, p50", percentile(times, 0.5), 0.05),
        time_row(f"submit, {WAITING:,} waiting, p99", percentile(times, 0.99), 0.2),
    ]


def _status(cluster: Cluster) -> None:
    subprocess.run(
        [str(PIT), "status"], env=cluster.env, cwd=cluster.project.path, capture_output=True, check=True
    )


def _fill(cluster: Cluster, like: int) -> None:
    """Straight into the database: preparing ten thousand trees would measure something else."""
    database = Database(f"sqlite:///{cluster.home / 'head' / 'pit.db'}", Bells())
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
        session.execute(insert(Job), [{**job, "submission_key": uuid.uuid4().hex} for _ in range(WAITING)])
    database.dispose()
