"""A node's runtime is changed while a process runs: the process ends as usual."""

from pathlib import Path

import pytest

from pit_protocol.states import KilledBy, ProcessState
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

WAIT = "echo ready; until [ -e $JOB_DIR/go ]; do sleep 0.05; done; echo last; exit 6"


@pytest.mark.parametrize(("before", "after"), [("docker", "process"), ("process", "docker")])
def test_running_processes_are_adopted_and_reported_correctly(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path, before: str, after: str
):
    first = containers.start(PIT_WORKER_RUNTIME=before)
    for process in (1, 2):
        if before == "docker":
            containers.run(process, WAIT)
        else:
            head.run(process, WAIT)
    eventually(lambda: head.log(1) == head.log(2) == "ready\n")
    containers.kill(first)
    containers.start(PIT_WORKER_RUNTIME=after)
    eventually(lambda: len(head.hellos) == 2 and head.hellos[1].runtime == after)
    eventually(lambda: head.spoken[-1].epoch == 2)
    assert head.state(1) is ProcessState.RUNNING
    head.stop(2)
    end = eventually(lambda: head.end(2))
    assert (end.signal, end.killed_by) == (15, KilledBy.USER)
    (own_root / "jobs/1/go").touch()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by, head.log(1)) == (6, None, "ready\nlast\n")
    if after == "docker":
        containers.run(3, "id -u")
    else:
        head.run(3, "id -u")
    assert eventually(lambda: head.end(3)).exit_code == 0
    eventually(lambda: containers.left() == [])
