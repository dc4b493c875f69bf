"""A wall clock jumps: leases and states depend on monotonic clocks alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster
from tests.support.faults.machine import Clock

DAY_S = 86400
JUMPS = (600, -600, DAY_S, -DAY_S, 0)


@pytest.mark.threat("F30")
@pytest.mark.parametrize("whose", ["head", "worker"])
def test_a_jump_of_the_clock_neither_loses_nor_delays_a_job(
    a_cluster: Callable[..., Cluster], tmp_path: Path, whose: str
) -> None:
    cluster, clock = a_cluster("n0"), Clock(tmp_path)
    cluster.environ["PIT_HEAD_LOST_AFTER_S"] = (
        "15"  # far less than a jump, and more than a busy machine sleeps
    )
    cluster.environ["PIT_HEAD_OFFLINE_AFTER_S"] = "10"
    node = cluster.nodes["n0"]
    (cluster if whose == "head" else node).environ.update(clock.environ)
    cluster.checker.has_true_times = whose != "head"
    cluster.start()
    number = cluster.run_gated()
    for seconds in JUMPS:
        clock.jump(seconds)
        (before,) = cluster.ledger.runs_of(number)
        # Several beats, with any of which a lease that ended would show.
        eventually(lambda before=before: cluster.ledger.runs_of(number)[0].last > before.last + 1.5)
        assert (cluster.record(number)["state"], node.state) == ("running", "online")
        assert cluster.await_end(cluster.submit(cluster.ledger.script()))["outcome"] == "succeeded"
    cluster.ledger.open_gate("go")
    assert cluster.await_end(number)["outcome"] == "succeeded"
