"""A node that loses the head's files starts nothing, and costs no job its life."""

from collections.abc import Callable
from pathlib import Path

from tests.faults.conftest import BOTH_DATABASES
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster

# Its self-check is slow, so that jobs reach it before it knows.
SLOW = {"PIT_WATCH_SPEEDUP": "1"}


def with_own_mount(cluster: Cluster, name: str, place: Path) -> Path:
    """Give a node its own way to the head's files, which a test can cut."""
    cluster.nodes[name].environ = {**SLOW, "PIT_WORKER_DATA_ROOT": str(place)}
    place.symlink_to(cluster.settings.root)
    return place


@BOTH_DATABASES
def test_thirty_jobs_survive_a_node_without_its_data_root(
    a_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = a_cluster("n0", "n1")
    mount = with_own_mount(cluster, "n0", tmp_path / "mount")
    cluster.start()
    mount.unlink()
    numbers = [cluster.submit(cluster.ledger.script(lines=1)) for _ in range(30)]
    records = [cluster.await_end(number) for number in numbers]
    assert {record["outcome"] for record in records} == {"succeeded"}
    assert {record["processes"][-1]["node"] for record in records} == {"n1"}
    assert max(record["attempt"] for record in records) == 2
    eventually(lambda: "data root" in cluster.get("/nodes/n0")["trouble"])


def test_a_job_on_two_nodes_begins_again_when_both_are_well(
    a_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = a_cluster("n0", "n1")
    mount = with_own_mount(cluster, "n0", tmp_path / "mount")
    cluster.start()
    eventually(lambda: cluster.get("/nodes/n0")["trouble"] == "")
    mount.unlink()
    number = cluster.submit(cluster.ledger.script(gate="go"), "[]@n0,[]@n1")
    eventually(lambda: cluster.record(number)["attempt"] == 2)
    eventually(lambda: "data root" in cluster.get("/nodes/n0")["trouble"])
    assert cluster.record(number)["state"] == "waiting"
    cluster.ledger.open_gate("go")
    mount.symlink_to(cluster.settings.root)
    assert cluster.await_end(number)["outcome"] == "succeeded"
    assert {run.attempt for run in cluster.ledger.runs_of(number)} <= {1, 2}
