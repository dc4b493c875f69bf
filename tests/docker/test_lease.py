"""The watchdog inside: a container ends by itself, though there is no worker to end it."""

from pathlib import Path

import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

READY = "echo ready; until [ -e $JOB_DIR/go ]; do sleep 0.05; done"


@pytest.mark.threat("F12")
def test_containers_whose_worker_is_gone_end_with_their_lease(
    head: StubHead, containers: Containers, eventually: Eventually
):
    head.hold_s = 0.5  # several beats in a lease
    first = containers.start()
    commands = {1: READY, 2: f"trap '' TERM; setsid sh -c '{READY}' & wait"}
    for process, command in commands.items():
        containers.run(process, command, lease_s=2.0, grace_s=0.5)
    eventually(lambda: all("ready" in head.log(process) for process in commands))
    containers.kill(first)
    eventually(lambda: all(containers.inspect(p)["State"]["Status"] == "exited" for p in commands))
    containers.start()
    for process, signal in ((1, 15), (2, 9)):
        end = eventually(lambda process=process: head.end(process))
        assert (end.killed_by, end.signal) == (KilledBy.LEASE, signal)
        assert end.reason == "its node had no contact with the head for 2 s"
        assert head.log(process).endswith("pit: this node had no contact with the head for 2 s; ending\n")
    eventually(lambda: containers.left() == [])


def test_a_lease_cannot_be_prolonged_from_inside_and_is_no_child_of_the_command(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    containers.start()
    find_children = 'for f in /proc/[0-9]*/status; do grep -q "^PPid:.$$\\$" $f && echo child $f; done'
    containers.run(1, f"echo 999999999 >/pit/lease; {find_children}; echo over; "
                   "until [ -e $JOB_DIR/go ]; do sleep 0.05; done; exit 5", lease_s=600.0)  # fmt: skip
    eventually(lambda: "over" in head.log(1))
    assert "Read-only file system" in head.log(1)
    # The loop's own `grep` is the one child that it may meet.
    assert head.log(1).count("child") <= 1
    (own_root / "jobs/1/go").touch()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by) == (5, None)
