"""What a node without the head's files has to bring waits for a head that does not take it."""

import sqlite3
from pathlib import Path

from tests.faults.local.test_remote import attempts, begin, data, home
from tests.support.clusters.local import Cluster, eventually
from tests.support.mounts import IN_REMOTE

FULL = {"PIT_HEAD_MIN_FREE_PERCENT": "99"}  # as if the head's disk had no room for anybody


def restart_head(cluster: Cluster, **env: str) -> None:
    cluster.kill("head")
    cluster.ok("up", **env)


def log(cluster: Cluster, number: int) -> str:
    return cluster.log_text(number)


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
    eventually(lambda: "the head's disk has" in cluster.record(number)["processes"][0]["reason"])
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


@IN_REMOTE
def test_a_jobs_token_that_ended_is_replaced_to_deliver(cluster: Cluster, tmp_path: Path) -> None:
    wait = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    write = 'echo late >&3; exec 3>&-; echo k >"$KEEP_DIR/k"'
    number = begin(cluster, f'exec 3>"$USER_DIR/late"; {wait}; {write}')
    with sqlite3.connect(cluster.home / "head" / "pit.db") as books:
        assert books.execute("DELETE FROM token WHERE attempt_id IS NOT NULL").rowcount == 1
    (tmp_path / "go").touch()
    assert cluster.wait(number)["outcome"] == "succeeded"
    assert (home(cluster) / "late").read_text() == "late\n"
    assert (data(cluster) / "jobs" / str(number) / "1/keep/k").read_text() == "k\n"


@IN_REMOTE
def test_what_a_worker_does_not_know_any_more_is_kept_and_brought_when_the_head_wants_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """As of a job that the head took for lost."""
    wait = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    number = begin(cluster, f'{wait}; echo k >"$KEEP_DIR/k"; touch {tmp_path}/done')
    (place,) = attempts(cluster)
    (entry,) = (path for path in (cluster.home / "worker").iterdir() if (path / "intent").exists())
    cluster.kill("worker")
    (tmp_path / "go").touch()
    eventually((tmp_path / "done").exists)
    eventually((entry / "exit").exists)
    (entry / "intent").unlink()
    cluster.ok("up")
    assert cluster.wait(number)["outcome"] != "succeeded"
    eventually((place / "kept").exists)
    assert (
        "1 of its files could not be brought to the head: keep/k: not on the head"
        in (place / "kept").read_text()
    )
    with sqlite3.connect(cluster.home / "head" / "pit.db") as books:
        books.execute("UPDATE job SET outcome = 'lost' WHERE id = ?", (number,))
    cluster.kill("worker")
    cluster.ok("up")
    eventually(lambda: attempts(cluster) == [])
    assert (data(cluster) / "jobs" / str(number) / "1/keep/k").read_text() == "k\n"
