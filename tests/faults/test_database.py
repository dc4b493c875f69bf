"""The database is locked, restarted, or copied at any moment: what was acknowledged is there."""

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.support.clusters.head import a_submission
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster
from tests.support.servers.postgres import Postgres, find_binaries

COPIES = int(os.environ.get("PIT_CRASH_IMAGES", "20"))


@pytest.mark.threat("F25")
def test_while_the_database_is_locked_requests_are_told_to_come_back(cluster: Cluster) -> None:
    running = cluster.run_gated()
    body = a_submission(command=cluster.ledger.script())
    with sqlite3.connect(cluster.home / "pit.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        cluster.ledger.open_gate("go")  # an end has to wait, too
        answer = cluster.call("POST", "/jobs", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "database_busy")
        assert int(answer.headers["Retry-After"]) > 0
        assert cluster.record(running)["state"] == "running"  # reading works
        other.execute("ROLLBACK")
    other.close()
    number = cluster.send(body)
    assert cluster.await_end(running)["outcome"] == "succeeded"
    assert cluster.await_end(number)["outcome"] == "succeeded"
    assert len(cluster.get("/jobs")["jobs"]) == 2


@pytest.mark.threat("F26")
def test_a_killed_postgresql_is_waited_for(tmp_path: Path, a_cluster: Callable[..., Cluster]) -> None:
    server = Postgres(find_binaries())
    server.start(is_durable=True)
    try:
        server.create("pit")
        cluster = a_cluster("n0", database_url=server.url("pit"))
        cluster.start()
        running = cluster.run_gated()
        body = a_submission(command=cluster.ledger.script())
        server.kill()
        cluster.ledger.open_gate("go")
        answer = cluster.call("POST", "/jobs", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "database_busy")
        server.start_again()
        number = eventually(lambda: try_to_send(cluster, body))
        assert cluster.await_end(running)["outcome"] == "succeeded"
        assert cluster.await_end(number)["outcome"] == "succeeded"
        cluster.finish()
        cluster.close()
    finally:
        server.stop()


def try_to_send(cluster: Cluster, body: dict[str, object]) -> int | None:
    """Send it to the head; one that lost its lock exits, and a service manager starts it again."""
    if cluster.head_is_gone:
        cluster.start_head()
    try:
        return cluster.send(body)
    except (AssertionError, requests.ConnectionError):
        return None


@pytest.mark.threat("F42")
def test_every_copy_of_the_database_has_what_was_acknowledged_before(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A copy of a frozen head's files is what a machine has on its disk when the power goes."""
    cluster.nodes["n0"].kill()  # placed jobs only wait
    done = threading.Event()
    sender = threading.Thread(target=submit_until, args=(cluster, done))
    sender.start()
    try:
        for index in range(COPIES):
            eventually(lambda least=5 * index: len(cluster.accepted) > least)
            check_copy(cluster, tmp_path / f"copy-{index}")
    finally:
        done.set()
        sender.join()
    for job in cluster.accepted:
        cluster.stop(job.number)


def submit_until(cluster: Cluster, done: threading.Event) -> None:
    while not done.is_set():
        cluster.submit("true")


def check_copy(cluster: Cluster, place: Path) -> None:
    assert cluster.head is not None
    place.mkdir()
    os.killpg(cluster.head.pid, signal.SIGSTOP)
    acknowledged = {job.number for job in cluster.accepted}
    for file in cluster.home.glob("pit.db*"):
        shutil.copyfile(file, place / file.name)
    os.killpg(cluster.head.pid, signal.SIGCONT)
    with sqlite3.connect(place / "pit.db") as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        stored = {row[0] for row in copy.execute("SELECT id FROM job")}
    copy.close()
    assert acknowledged <= stored
    shutil.rmtree(place)
