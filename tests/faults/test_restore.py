"""A backup is restored while three workers live on, as an admin would: new jobs run, and are right."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pit_server.db import lock
from tests.faults.conftest import BOTH_DATABASES
from tests.head.restore.test_generation import drop_lock
from tests.support.clusters.local import PIT
from tests.support.faults.cluster import Cluster

pytestmark = [BOTH_DATABASES, pytest.mark.threat("F26")]


def pit_head(cluster: Cluster, command: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(PIT.with_name("pit-head")), command, "--home", str(cluster.home), *arguments],
        env={"PATH": os.environ["PATH"], **cluster.environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_from_after_the_backup_run_new_jobs(
    a_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = a_cluster("n0", "n1", "n2")
    cluster.start()
    file = tmp_path / "backup.tar"
    runs_on = cluster.run_gated("first", "[]@n0")
    pit_head(cluster, "backup", str(file))
    saved = len(cluster.accepted)
    # After the backup: jobs end and jobs run, and a worker begins another session.
    for name in cluster.nodes:
        assert (
            cluster.await_end(cluster.submit(cluster.ledger.script(), f"[]@{name}"))["outcome"] == "succeeded"
        )
    unknown = cluster.run_gated("second", "3:[]")
    cluster.nodes["n2"].kill()
    cluster.nodes["n2"].start()
    highest = cluster.submit("echo newest")
    cluster.kill_head()
    pit_head(cluster, "restore", "--force", str(file))
    del cluster.accepted[saved:]  # what was accepted after the backup is lost
    cluster.checker.reopen()
    cluster.start_head()
    new = [cluster.submit(cluster.ledger.script(lines=2), f"[]@{name}") for name in cluster.nodes]
    assert min(new) > highest
    for number in new:
        assert cluster.await_end(number)["outcome"] == "succeeded"
        assert len(cluster.ledger.runs_of(number)) == 1
    assert cluster.call("GET", f"/jobs/{unknown}").status_code == 404
    # The job that the backup has running goes on as if nothing had happened.
    assert cluster.record(runs_on)["state"] == "running"
    cluster.ledger.open_gate("first")
    assert cluster.await_end(runs_on)["outcome"] == "succeeded"
    assert all(node.is_up for node in cluster.nodes.values())
    assert "was restored from a backup" in cluster.get("/status")["notices"][0]


@pytest.mark.threat("F24")
def test_a_head_whose_lock_another_has_exits_and_the_next_one_serves(cluster: Cluster) -> None:
    drop_lock(cluster.settings)
    other = lock.hold(cluster.settings.sqlalchemy_url)
    assert cluster.head is not None
    assert cluster.head.wait(120) == 3
    assert "another head has the lock on this head's database; it stops serving" in cluster.console()
    other.close()
    cluster.start_head()
    assert cluster.await_end(cluster.submit(cluster.ledger.script()))["outcome"] == "succeeded"
