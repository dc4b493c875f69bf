"""A process that SIGKILL does not end."""

import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

FAST = {"PIT_WATCH_SPEEDUP": "30"}  # after two seconds, what was killed should have ended


@pytest.mark.threat("F36")
def test_a_process_that_outlives_sigkill_is_a_trouble_of_its_node_until_it_ends(
    head: StubHead, containers: Containers, eventually: Eventually
):
    if containers.client.info()["CgroupVersion"] != "1":
        pytest.skip("with cgroup 2 a frozen container can be killed")
    worker = containers.start(**FAST)
    containers.run(1, "echo ready; while :; do sleep 0.05; done", grace_s=0.1)
    eventually(lambda: head.log(1) == "ready\n")
    containers.client.api.pause(containers.name(1))
    head.stop(1)
    hangs = "a process that was killed does not end: it hangs in the kernel, or is frozen"
    eventually(lambda: head.spoken[-1].trouble == hangs)
    containers.kill(worker)
    beats = len(head.spoken)
    containers.start(**FAST)
    # The next worker knows for how long it has been so.
    eventually(lambda: len(head.spoken) > beats and head.spoken[-1].trouble == hangs)
    assert head.end(1) is None
    containers.client.api.unpause(containers.name(1))
    end = eventually(lambda: head.end(1))
    assert (end.signal, end.killed_by) == (9, KilledBy.USER)
    eventually(lambda: head.spoken[-1].trouble == "")
    eventually(lambda: containers.left() == [])
