"""The network between node and head fails: nothing is done twice, and what cannot be known is not guessed."""

import subprocess
from collections.abc import Callable

import pytest

from pit_worker.spool.lease import since_boot
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster, Node
from tests.support.netns import Wires

LOST_AFTER_S = 2.0


@pytest.fixture
def leased(a_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster in which processes of a silent node are lost."""
    cluster = a_cluster("n0")
    cluster.environ["PIT_HEAD_LOST_AFTER_S"] = str(LOST_AFTER_S)
    cluster.start()
    return cluster


def terminal_events(cluster: Cluster, number: int) -> list[str]:
    return [event["event"] for event in cluster.record(number)["events"] if event["event"] == "settled"]


def lose(cluster: Cluster, number: int) -> float:
    """Wait until the job is lost, and return when that was; its process must have ended before."""
    assert cluster.await_end(number)["outcome"] == "lost"
    lost_at = since_boot()
    (run,) = cluster.ledger.runs_of(number)
    assert run.exit_code is None
    eventually(lambda: since_boot() > lost_at + 0.3)  # several beats of the job
    assert cluster.ledger.runs_of(number) == [run]
    return lost_at


@pytest.mark.threat("F16")
@pytest.mark.parametrize("fault", ["partition", "cut"])
def test_a_job_continues_through_a_partition(cluster: Cluster, fault: str) -> None:
    node = cluster.nodes["n0"]
    number = cluster.run_gated()
    getattr(node.proxy, fault)()
    node.await_state("offline")
    (before,) = cluster.ledger.runs_of(number)
    eventually(lambda: cluster.ledger.runs_of(number)[0].lines > before.lines + 5)
    assert cluster.record(number)["state"] == "running"
    cluster.ledger.open_gate("go")
    node.proxy.heal()
    assert cluster.await_end(number)["outcome"] == "succeeded"
    node.await_state("online")


@pytest.mark.threat("F17")
def test_beyond_the_lease_the_process_ends_before_the_head_gives_it_up(leased: Cluster) -> None:
    node = leased.nodes["n0"]
    number = leased.run_gated()
    node.proxy.partition()
    lose(leased, number)
    node.proxy.heal()
    node.await_state("online")
    # What the node reports now is too late; the next job gets the resources.
    leased.ledger.open_gate("go")
    assert leased.await_end(leased.submit(leased.ledger.script(), "[]"))["outcome"] == "succeeded"
    assert leased.record(number)["outcome"] == "lost"
    assert terminal_events(leased, number) == ["settled"]


@pytest.mark.threat("F21")
def test_a_worker_that_was_frozen_beyond_the_lease_changes_nothing(leased: Cluster) -> None:
    node = leased.nodes["n0"]
    number = leased.run_gated()
    node.pause()
    lose(leased, number)
    node.resume()
    node.await_state("online")
    leased.ledger.open_gate("go")
    assert leased.await_end(leased.submit(leased.ledger.script()))["outcome"] == "succeeded"
    assert leased.record(number)["outcome"] == "lost"
    assert terminal_events(leased, number) == ["settled"]


@pytest.mark.threat("F18")
def test_when_only_answers_are_lost_the_lease_ends_and_nothing_is_repeated(leased: Cluster) -> None:
    node = leased.nodes["n0"]
    number = leased.run_gated()
    node.proxy.down.loses = True
    eventually(lambda: not leased.checker.list_processes())
    node.proxy.heal()
    node.proxy.reset()  # what was lost does not come again
    record = leased.await_end(number)
    assert (record["outcome"], record["processes"][0]["killed_by"]) == ("lost", "lease")


@pytest.mark.threat("F18")
def test_a_job_starts_and_ends_once_though_answers_are_cut_off(cluster: Cluster) -> None:
    """Every answer breaks off after a while, at another byte each time."""
    node = cluster.nodes["n0"]
    numbers = [cluster.submit(cluster.ledger.script(lines=20)) for _ in range(3)]
    for limit in range(1, 400, 40):
        node.proxy.down.cut_after = limit
        eventually(lambda: node.proxy.down.cut_after is None)
    for number in numbers:
        assert cluster.await_end(number)["outcome"] == "succeeded"


def slow_down(node: Node) -> None:
    node.proxy.up.bytes_per_s = node.proxy.down.bytes_per_s = 125_000  # 1 Mbit/s
    node.proxy.up.delay_s = node.proxy.down.delay_s = 0.2


@pytest.mark.threat("F19")
def test_nothing_is_lost_though_a_third_of_all_packets_is(a_cluster: Callable[..., Cluster]) -> None:
    wires = Wires(1)
    try:
        (machine,) = wires.machines
        cluster = a_cluster("n0", host=wires.head)
        cluster.nodes["n0"].inside = machine.inside
        cluster.start()
        loss = ("-m", "statistic", "--mode", "random", "--probability", "0.3", "-j", "DROP")
        subprocess.run([*machine.inside, "iptables", "-A", "INPUT", *loss], check=True)
        numbers = [cluster.submit(cluster.ledger.script(lines=40)) for _ in range(3)]
        for number in numbers:
            assert cluster.await_end(number, 120)["outcome"] == "succeeded"
        subprocess.run([*machine.inside, "iptables", "-F", "INPUT"], check=True)
        cluster.finish()
        cluster.close()
    finally:
        wires.close()


@pytest.mark.threat("F19")
def test_nothing_is_lost_on_a_slow_and_late_network(a_cluster: Callable[..., Cluster]) -> None:
    cluster = a_cluster("n0")
    cluster.environ["PIT_HEAD_LOST_AFTER_S"] = "15"
    cluster.start()
    slow_down(cluster.nodes["n0"])
    number = cluster.submit(cluster.ledger.script(lines=80))
    assert cluster.await_end(number)["outcome"] == "succeeded"
