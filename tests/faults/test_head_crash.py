"""The head dies at a commit and is started again: nothing is lost, and nothing is done twice."""

import pytest
import requests

from tests.faults.conftest import BOTH_DATABASES
from tests.support.clusters.head import a_submission
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster


def restart(cluster: Cluster, crash_at: str) -> None:
    cluster.kill_head()
    cluster.start_head(crash_at)


@BOTH_DATABASES
@pytest.mark.threat("F01", "F02", "F03", "F04", "F05")
def test_a_job_survives_a_crash_before_and_after_each_of_its_commits(cluster: Cluster) -> None:
    body = a_submission(command=cluster.ledger.script(gate="go", code=3))
    for moment in ("before", "after"):
        restart(cluster, f"{moment}:jobs.submit")
        with pytest.raises(requests.ConnectionError):
            cluster.send(body)
        cluster.await_crash()
    for place in ("prepare", "scheduling", "worker.beat"):  # the last one reports the start
        for moment in ("before", "after"):
            cluster.start_head(f"{moment}:{place}")
            cluster.await_crash()
    cluster.start_head()
    number = cluster.send(body)
    cluster.await_state(number, "running")
    restart(cluster, "before:worker.beat")
    cluster.ledger.open_gate("go")  # now it reports the end
    cluster.await_crash()
    cluster.start_head("after:worker.beat")
    cluster.await_crash()
    cluster.start_head()
    record = cluster.await_end(number)
    assert [process["exit_code"] for process in record["processes"]] == [3]
    assert [job["number"] for job in cluster.get("/jobs")["jobs"]] == [number]
    (run,) = cluster.ledger.runs()
    assert (run.starts, run.exit_code) == (1, 3)


@BOTH_DATABASES
@pytest.mark.threat("F06")
def test_a_stop_survives_a_crash_before_and_after_each_of_its_commits(cluster: Cluster) -> None:
    number = cluster.run_gated()
    for moment in ("before", "after"):
        restart(cluster, f"{moment}:jobs.stop")
        with pytest.raises(requests.ConnectionError):
            cluster.stop(number)
        cluster.await_crash()
    for moment in ("before", "after"):
        cluster.start_head(f"{moment}:worker.beat")
        cluster.await_crash()
    cluster.start_head()
    assert cluster.await_end(number)["outcome"] == "stopped"


@pytest.mark.threat("F07", "F10")
def test_jobs_end_while_the_head_is_away_and_are_reported_when_it_is_back(cluster: Cluster) -> None:
    codes = {cluster.run_gated(request="[]", code=code): code for code in (0, 4)}
    cluster.kill_head()
    cluster.ledger.open_gate("go")
    eventually(lambda: all(run.exit_code is not None for run in cluster.ledger.runs()))
    cluster.nodes["n0"].kill()  # all that is known now is in the spool
    cluster.nodes["n0"].start()
    cluster.start_head()
    for number, code in codes.items():
        assert cluster.await_end(number)["processes"][0]["exit_code"] == code
