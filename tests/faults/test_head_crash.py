"""The head dies at a commit and is started again: nothing is lost, and nothing is done twice."""

import pytest
import requests

from tests.faults.conftest import BOTH_DATABASES
from tests.support.clusters.head import a_submission
from tests.support.faults.cluster import Cluster

pytestmark = BOTH_DATABASES


def restart_to_crash(cluster: Cluster, point: str) -> None:
    cluster.kill_head()
    cluster.start_head(point)


@pytest.mark.threat("F01", "F02")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_submission_repeated_after_a_crash_is_one_job(cluster: Cluster, moment: str) -> None:
    restart_to_crash(cluster, f"{moment}:jobs.submit")
    body = a_submission(command=cluster.ledger.script())
    with pytest.raises(requests.ConnectionError):
        cluster.send(body)
    cluster.await_crash()
    cluster.start_head()
    number = cluster.send(body)
    assert [job["number"] for job in cluster.get("/jobs")["jobs"]] == [number]
    assert cluster.await_end(number)["outcome"] == "succeeded"
