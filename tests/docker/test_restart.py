"""A worker may die at any moment; its containers keep running, run once, and nothing of them is lost."""

import os
import signal
from pathlib import Path

import pytest

from pit_protocol.states import ProcessState
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

COUNT = 'i=0; until [ -e "$JOB_DIR/go" ]; do echo line $((i++)); sleep 0.01; done; echo last $i'


@pytest.mark.threat("F09")
def test_a_running_container_is_adopted_with_no_gap_in_its_log(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    first = containers.start()
    containers.run(1, COUNT)
    eventually(lambda: "line 5\n" in head.log(1))
    containers.kill(first)
    before, size = containers.inspect(1), len(head.log(1))
    containers.start()
    eventually(lambda: len(head.log(1)) > size)
    assert head.state(1) is ProcessState.RUNNING
    after = containers.inspect(1)
    assert (after["Id"], after["State"]["Pid"]) == (before["Id"], before["State"]["Pid"])
    (own_root / "jobs/1/go").touch()
    assert eventually(lambda: head.end(1)).exit_code == 0
    lines = head.log(1).splitlines()
    assert lines == [f"line {i}" for i in range(len(lines) - 1)] + [f"last {len(lines) - 1}"]
    eventually(lambda: containers.left() == [])


@pytest.mark.threat("F10")
def test_an_end_while_the_worker_is_down_is_reported_correctly(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    first = containers.start()
    containers.run(1, COUNT + "; exit 9")
    eventually(lambda: "line 1\n" in head.log(1))
    containers.kill(first)
    (own_root / "jobs/1/go").touch()
    eventually(lambda: containers.inspect(1)["State"]["Status"] == "exited")
    containers.start()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by) == (9, None)
    assert "\nlast " in head.log(1)
    assert end.image.startswith("sha256:")


@pytest.mark.threat("F08")
def test_orphans_of_this_spool_are_removed_and_nothing_else(
    head: StubHead, containers: Containers, eventually: Eventually
):
    own = {"pit.cluster": head.cluster, "pit.process": "77", "pit.attempt": "1"}
    for name, spool in (("left", str(containers.spool)), ("other", "/another/spool")):
        labels = {**own, "pit.spool": spool}
        containers.client.api.create_network(f"pit-{head.cluster}-{name}", labels=labels)
        containers.client.containers.run(
            containers.image, ["sleep", "1000"], name=f"pit-{head.cluster}-{name}", labels=labels, detach=True
        )
    containers.start()
    eventually(lambda: containers.left() == [f"/pit-{head.cluster}-other", f"pit-{head.cluster}-other"])
    containers.run(1, "true")
    eventually(lambda: head.end(1))


def test_a_foreign_container_of_the_same_name_is_not_touched(
    head: StubHead, containers: Containers, eventually: Eventually
):
    labels = {"pit.cluster": head.cluster, "pit.spool": "/another/spool"}
    containers.client.containers.run(
        containers.image, ["sleep", "1000"], name=containers.name(1), labels=labels, detach=True
    )
    containers.start()
    containers.run(1, "true")
    end = eventually(lambda: head.end(1))
    assert end.reason == f"there is a container {containers.name(1)} already, which is not from this worker"
    assert containers.inspect(1)["State"]["Running"]


def test_a_kill_from_outside_is_not_blamed_on_the_engine(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.start()
    containers.run(1, "echo ready; sleep 1000")
    eventually(lambda: head.log(1))
    os.kill(containers.inspect(1)["State"]["Pid"], signal.SIGKILL)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.killed_by, end.reason) == (137, 9, None, "")
