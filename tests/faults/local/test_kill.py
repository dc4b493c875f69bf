"""kill -9 anything at any time: the job still ends right, once, with its whole log."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters.local import Cluster, eventually

SCRIPT = """
echo "start $RANK" >>{ledger}
for i in 1 2 3 4 5 6 7 8 9 10; do echo "line $i"; sleep 0.1; done
echo "end $RANK" >>{ledger}
exit {code}
"""


def script(ledger: Path, code: int = 0) -> str:
    return SCRIPT.format(ledger=ledger, code=code)


def check(cluster: Cluster, number: int, ledger: Path) -> None:
    """One outcome, each process ran once, and each of its lines came once and in order."""
    record = cluster.wait(number)
    assert record["outcome"] == "succeeded", record
    assert sorted(ledger.read_text().splitlines()) == ["end 0", "end 1", "start 0", "start 1"]
    assert [event["event"] for event in record["events"]].count("settled") == 1
    for process in ("0.0", "0.1"):
        lines = cluster.ok("log", str(number), "--process", process).splitlines()
        assert [line.split("] ")[-1] for line in lines] == [f"line {i}" for i in range(1, 11)]


@pytest.mark.parametrize("victim", ["head", "worker"])
@pytest.mark.parametrize("moment", ["at once", "when it runs"])
@pytest.mark.threat("F04", "F09")
def test_killed_and_started_again(cluster: Cluster, tmp_path: Path, victim: str, moment: str) -> None:
    ledger = tmp_path / "ledger"
    number = cluster.run(script(ledger), "2:[]")
    if moment == "when it runs":
        eventually(lambda: "line 3" in cluster.log_text(number))
    cluster.kill(victim)
    cluster.ok("up")
    check(cluster, number, ledger)


@pytest.mark.threat("F10")
def test_both_killed_while_the_job_ends_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    number = cluster.run(script(ledger, code=5), "2:[]")
    eventually(lambda: "line 2" in cluster.log_text(number))
    cluster.kill("worker")
    cluster.kill("head")
    eventually(lambda: ledger.read_text().count("end") == 2)
    cluster.ok("up")
    record = cluster.wait(number)
    assert record["outcome"] == "failed"
    assert [process["exit_code"] for process in record["processes"]] == [5, 5]
    assert cluster.ok("log", str(number), "--process", "0.1").count("line") == 10


@pytest.mark.threat("F04", "F08")
def test_killed_at_random_moments_from_submission_to_end(cluster: Cluster, tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)
    dice = random.Random(seed)
    for round_number in range(3):
        ledger = tmp_path / f"ledger{round_number}"
        number = cluster.run(script(ledger), "2:[]")
        for victim in dice.sample(["head", "worker"], 2):
            moment = dice.uniform(0, 0.9)
            try:
                eventually(lambda: False, within_s=moment)
            except AssertionError:
                cluster.kill(victim)
            cluster.ok("up")
        check(cluster, number, ledger)


def test_a_submission_repeated_after_a_lost_answer_is_one_job(cluster: Cluster) -> None:
    cluster.kill("head")
    refused = cluster.pit("run", "x", "[]", "-d", "true")
    assert refused.code == 1 and "pit up" in refused.err
    cluster.ok("up")
    assert cluster.json("status")["totals"] == {"running": 0, "waiting": 0, "done": 0, "unapproved": 0}


@pytest.mark.threat("F24")
def test_a_second_head_on_the_same_database_refuses_to_start(shared_cluster: Cluster) -> None:
    home = str(shared_cluster.home / "head")
    command = [sys.executable, "-m", "pit_server", "serve", "--home", home, "--bind", "127.0.0.1:0"]
    done = subprocess.run(command, env=shared_cluster.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "another head runs on" in done.stderr
