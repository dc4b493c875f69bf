"""What a container writes beside its job's directory counts, too."""

import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.worker.conftest import Eventually
from tests.worker.stub_head import StubHead


@pytest.mark.parametrize("place", ["/tmp", "$JOB_DIR"])
def test_a_container_that_fills_the_disk_is_ended(
    head: StubHead, containers: Containers, eventually: Eventually, place: str
):
    containers.start(PIT_WATCH_HASTE="50")
    containers.run(1, f"head -c 9000000 /dev/zero >{place}/large; sleep 600", disk_mib=5)
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.reason) == (
        KilledBy.LIMIT,
        "it fills 8 MiB of disk, and may fill 5 MiB",
    )
    eventually(lambda: containers.left() == [])
