"""What a container writes outside its job's directory counts, too."""

import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually


@pytest.mark.parametrize("place", ["/tmp", "$JOB_DIR"])
def test_a_container_that_fills_the_disk_is_ended(
    head: StubHead, containers: Containers, eventually: Eventually, place: str
):
    containers.start(PIT_WATCH_SPEEDUP="50")
    containers.run(1, f"head -c 9000000 /dev/zero >{place}/large; sleep 600", disk_mib=5)
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.reason) == (
        KilledBy.LIMIT,
        "it uses 8 MiB of disk, and may use 5 MiB",
    )
    eventually(lambda: containers.left() == [])
