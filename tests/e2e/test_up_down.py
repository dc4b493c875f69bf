"""`pit up` and `pit down` again and again."""

from tests.support.clusters.local import Cluster, eventually


def test_up_twice_is_fine_and_down_asks_about_running_jobs(cluster: Cluster) -> None:
    pids = cluster.pid("head"), cluster.pid("worker")
    assert "already" in cluster.ok("up")
    assert (cluster.pid("head"), cluster.pid("worker")) == pids
    go = cluster.home / "go"
    number = cluster.run(f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo over")
    eventually(lambda: "begun" in cluster.log_text(number))
    refused = cluster.pit("down")
    assert refused.code == 1 and "1 job still runs: 1 (a job)" in refused.err
    cluster.ok("down", "--leave")
    assert cluster.pit("status").code == 1
    cluster.ok("up")
    go.touch()
    assert cluster.wait(number)["outcome"] == "succeeded"
    assert cluster.ok("log", str(number)).count("over") == 1
