"""A user's variables in a container: the command has them, the watchdog does not."""

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

GIVEN = {
    "TOKEN": "S3CRET 'ā' \"$HOME\" `id` \\",
    "PATH": "/nowhere",  # with this one the watchdog would find no sleep
    "LD_PRELOAD": "/S3CRET/none.so",
    "LANG": "de_DE.UTF-8",
}


def test_they_reach_only_the_command_and_the_watchdog_still_works(
    head: StubHead, containers: Containers, eventually: Eventually
):
    head.hold_s = 0.5  # several beats in a lease
    first = containers.start()
    command = 'printf "%s\\n" "$TOKEN" "$PATH" "$LD_PRELOAD" "$LANG" "$HOME"; while :; do :; done'
    containers.run(1, command, variables=GIVEN, lease_s=3.0, grace_s=0.5)
    eventually(lambda: "/pit/home\n" in head.log(1))
    assert [*GIVEN.values(), "/pit/home"] == [
        line for line in head.log(1).splitlines() if "ld.so" not in line
    ]
    assert "S3CRET" not in str(containers.inspect(1))
    containers.kill(first)
    eventually(lambda: containers.inspect(1)["State"]["Status"] == "exited")
    containers.start()
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.signal) == (KilledBy.LEASE, 15)
    eventually(lambda: containers.left() == [])
