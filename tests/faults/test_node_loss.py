"""A node or its worker dies: the next worker finds out what happened."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster


@pytest.mark.threat("F09", "F10")
def test_the_same_process_continues_and_one_that_ended_is_reported(cluster: Cluster) -> None:
    node = cluster.nodes["n0"]
    continues, ends = cluster.run_gated("later"), cluster.run_gated("now", code=6)
    before = set(cluster.checker.list_processes())
    node.kill()
    cluster.ledger.open_gate("now")
    eventually(lambda: cluster.ledger.runs_of(ends)[0].exit_code == 6)
    node.start()
    assert cluster.await_end(ends)["processes"][0]["exit_code"] == 6
    assert cluster.record(continues)["state"] == "running"
    assert set(cluster.checker.list_processes()) & before
    cluster.ledger.open_gate("later")
    assert cluster.await_end(continues)["outcome"] == "succeeded"


@pytest.mark.threat("F22")
def test_after_a_power_cut_processes_are_lost_and_their_resources_free(cluster: Cluster) -> None:
    node = cluster.nodes["n0"]
    cores = cluster.get("/nodes/n0")["cores"]
    number = cluster.run_gated(request=f"[{cores}:cpu]")
    node.kill()
    # As when the power goes: all at once, supervisors too, so that nobody sees an exit code.
    for pid in cluster.checker.list_processes():
        os.kill(pid, signal.SIGKILL)
    node.environ["PIT_WORKER_BOOT_ID"] = "another-boot"
    node.start()
    record = cluster.await_end(number)
    assert (record["outcome"], record["processes"][0]["killed_by"]) == ("lost", "reboot")
    number = cluster.submit(cluster.ledger.script(), f"[{cores}:cpu]")
    assert cluster.await_end(number)["outcome"] == "succeeded"


@pytest.mark.threat("F12", "F17")
def test_without_worker_and_network_the_process_ends_with_its_lease(cluster: Cluster) -> None:
    cluster.kill_head()
    cluster.start_head(PIT_HEAD_LOST_AFTER_S="2")
    number = cluster.run_gated()
    node = cluster.nodes["n0"]
    node.proxy.partition()
    node.kill()
    eventually(lambda: not cluster.checker.list_processes())
    assert cluster.await_end(number)["outcome"] == "lost"


@pytest.mark.threat("F12", "F17")
def test_a_job_with_retry_runs_elsewhere_when_its_lease_is_over(a_cluster: Callable[..., Cluster]) -> None:
    cluster = a_cluster("n0", "n1")
    cluster.start_head(PIT_HEAD_RETRY_LOST_AFTER_S="2", PIT_HEAD_RETRY_DELAY_S="0")
    first, second = cluster.nodes.values()
    first.start()
    first.await_state("online")
    number = cluster.submit(cluster.ledger.script(gate="go"), retry=1)
    eventually(lambda: len(cluster.ledger.runs_of(number)) == 1)
    second.start()
    second.await_state("online")
    first.proxy.partition()
    first.kill()
    eventually(lambda: len(cluster.ledger.runs_of(number)) == 2)
    # That the two did not overlap is checked at the end of every test.
    cluster.ledger.open_gate("go")
    record = cluster.await_end(number)
    assert (record["outcome"], [process["node"] for process in record["processes"]]) == (
        "succeeded",
        ["n0", "n1"],
    )
