"""Random faults on three nodes, for a short time; `make nemesis` runs them for an hour."""

import os
import random
from collections.abc import Callable

import pytest

from tests.support.faults.cluster import Cluster
from tests.support.faults.nemesis import NODES, Nemesis

SECONDS = float(os.environ.get("PIT_NEMESIS_S", "25"))


@pytest.mark.threat("F44")
def test_all_invariants_hold_under_random_faults(a_cluster: Callable[..., Cluster]) -> None:
    cluster = a_cluster(*NODES)
    cluster.start()
    seed = random.randrange(1_000_000)
    print("seed", seed)
    nemesis = Nemesis(cluster, seed, SECONDS, pace_s=0.3)
    nemesis.run()
    print(nemesis.report())
    assert sum(nemesis.faults.values()) > 1
    assert len(cluster.accepted) > 10
