"""What a node without the head's files has to bring waits for a head that does not take it."""

from pathlib import Path

from tests.e2e.cluster import Cluster, eventually, is_alive
from tests.e2e.mounts import IN_REMOTE
from tests.e2e.test_remote import attempts, begin, data, home

FULL = {"PIT_HEAD_MIN_FREE_PERCENT": "99"}  # as if the head's disk had no room for anybody


def restart_head(cluster: Cluster, **env: str) -> None:
    pid = cluster.pid("head")
    cluster.kill("head")
    eventually(lambda: not is_alive(pid))
    cluster.ok("up", **env)


def log(cluster: Cluster, number: int) -> str:
    return cluster.ok("log", str(number), "--no-follow")


@IN_REMOTE
def test_results_wait_for_a_head_without_room_whoever_is_killed_meanwhile(
    cluster: Cluster, tmp_path: Path
) -> None:
    wait = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    write = 'echo k >"$KEEP_DIR/k"; echo late >"$USER_DIR/late"; echo r >"$RESULT_FILE"'
    number = begin(cluster, f"{wait}; {write}; touch {tmp_path}/done")
    cluster.kill("worker")
    restart_head(cluster, **FULL)
    (tmp_path / "go").touch()
    eventually((tmp_path / "done").exists)
    eventually(lambda: "not on the head yet" in log(cluster, number))
    record = cluster.record(number)
    assert (record["state"], record["processes"][0]["state"]) == ("running", "running"), record
    assert "the head's disk has" in record["processes"][0]["reason"]
    eventually(lambda: "the head's disk has" in cluster.json("show", "nodes")["nodes"][0]["trouble"])
    cluster.kill("worker")
    restart_head(cluster, **FULL)
    eventually(lambda: log(cluster, number).count("not on the head yet") > 1)
    restart_head(cluster)
    record = cluster.wait(number)
    assert (record["outcome"], record["result"]) == ("succeeded", "r"), record
    assert (data(cluster) / "jobs" / str(number) / "1/keep/k").read_text() == "k\n"
    assert (home(cluster) / "late").read_text() == "late\n"
    eventually(lambda: attempts(cluster) == [])
    eventually(lambda: not cluster.json("show", "nodes")["nodes"][0]["trouble"])
