"""A machine that is never heard of again, through the installed commands: its jobs end, and end once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.test_lab import root  # noqa: F401
from tests.support.clusters.lab import Lab, Person
from tests.support.clusters.local import eventually, is_alive
from tests.support.mounts import BOUND, REMOTE, need_mounts

AS_WORKER = {"PIT_WORKER_RUN_AS": "worker"}  # it writes to a file of the test
IMPATIENT = {"PIT_HEAD_HOLD_S": "0.5", "PIT_HEAD_OFFLINE_AFTER_S": "1.5", "PIT_HEAD_GRACE_S": "0.5"}
COMMAND = "echo $$ >>{ledger}; while :; do echo tick | tee -a $KEEP_DIR/last; sleep 0.1; done"


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, **IMPATIENT, PIT_HEAD_LOST_AFTER_S=getattr(request, "param", "0"))
    lab.start_head()
    yield lab
    lab.close()


def is_there(root: Person, name: str) -> bool:  # noqa: F811
    return bool(root.json("show", f"node:{name}")["state"] == "online")


def run_on(root: Person, ledger: Path, request: str) -> int:  # noqa: F811
    number = root.run(COMMAND.format(ledger=ledger), request)
    eventually(lambda: ledger.exists() and len(ledger.read_text().split()) == request.count("["))
    eventually(lambda: root.json("show", str(number))["state"] == "running")
    return number


def pids(ledger: Path) -> list[int]:
    return [int(word) for word in ledger.read_text().split()]


def is_ended(root: Person, number: int) -> Callable[[], bool]:  # noqa: F811
    return lambda: root.json("show", str(number))["state"] == "ended"


@pytest.mark.parametrize("lab", ["2"], indirect=True)
@pytest.mark.threat("F17")
def test_what_ran_on_a_dead_machine_is_lost_in_time_and_the_rest_of_its_job_is_stopped(
    lab: Lab, root: Person, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    workers = {
        name: lab.start_worker(lab.join(root.ok("add", f"node:{name}"), name), **AS_WORKER)
        for name in ("n0", "n1")
    }
    for name in workers:
        eventually(lambda name=name: is_there(root, name))
    number = run_on(root, tmp_path / "ledger", "[]@n0,[]@n1")
    lab.kill(workers["n0"])
    eventually(is_ended(root, number))
    record = root.json("show", str(number))
    assert record["outcome"] == "lost"
    assert record["reason"] == (
        "worker 0 is lost: its node n0 had no contact with the head for more than 2 s"
    )
    assert not any(map(is_alive, pids(tmp_path / "ledger")))
    assert len(pids(tmp_path / "ledger")) == 2
    assert root.pit("wait", str(number)).code == 3
    assert "node:n0 is removed" in root.ok("remove", "node:n0")


@pytest.mark.parametrize("data", [BOUND, REMOTE])
@pytest.mark.threat("F17")
def test_a_machine_that_an_admin_gave_up_is_told_to_stop_when_it_returns(
    lab: Lab, root: Person, tmp_path: Path, data: str  # noqa: F811
) -> None:  # fmt: skip
    if data == REMOTE:
        need_mounts()
    settings = AS_WORKER | ({"PIT_WORKER_DATA_ROOT": REMOTE} if data == REMOTE else {})
    config = lab.join(root.ok("add", "node:n0"), "n0")
    worker = lab.start_worker(config, **settings)
    eventually(lambda: is_there(root, "n0"))
    number = run_on(root, tmp_path / "ledger", "[]")
    assert "node n0 is online" in root.refused("remove", "node:n0", "--lost")
    lab.kill(worker)
    eventually(lambda: not is_there(root, "n0"))
    assert "`pit remove node:n0 --lost` marks them lost" in root.refused("remove", "node:n0")
    assert root.ok("remove", "node:n0", "--lost").splitlines() == [
        "node:n0 is removed",
        f"job {number} is lost; processes that still run there are stopped when the node returns",
    ]
    (pid,) = pids(tmp_path / "ledger")
    assert is_alive(pid)
    before = root.ok("log", str(number)).count("tick")
    lab.start_worker(config, **settings)
    eventually(lambda: not is_alive(pid))
    eventually(lambda: "refuses this node's token" in lab.console())
    record = root.json("show", str(number))
    assert (record["state"], record["outcome"]) == ("ended", "lost")
    assert pids(tmp_path / "ledger") == [pid]
    # What it wrote in between came along.
    assert root.ok("log", str(number)).count("tick") > before
    assert root.ok("cat", str(number), "keep/last") != ""
    acts = [entry["act"] for entry in root.json("show", "audit")["entries"]]
    assert acts.index("left") < acts.index("remove as lost")
