"""What a container uses of disk, wherever it writes, and of cores and memory."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers, add_image, make_tree
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually


@pytest.fixture
def image_with_volume(engine: docker.DockerClient, tmp_path: Path) -> Iterator[str]:
    name = f"pit-test-{uuid.uuid4().hex[:8]}:1"
    folder = make_tree(tmp_path / "image" / "tree")
    (folder / "scratch").mkdir(mode=0o777)
    (folder / "scratch").chmod(0o777)
    add_image(engine, folder, name, changes=["VOLUME /scratch"])
    yield name
    engine.images.remove(name, force=True)


@pytest.mark.threat("S37", "S43", "F28")
def test_a_container_that_fills_the_disk_is_ended(
    head: StubHead, containers: Containers, eventually: Eventually, image_with_volume: str
):
    containers.start(PIT_WATCH_SPEEDUP="50")
    for process, place in enumerate(("/tmp", "/scratch", "$JOB_DIR"), start=1):
        command = f"head -c 9000000 /dev/zero >{place}/large; sleep 600"
        containers.run(process, command, disk_mib=5, image=image_with_volume)
        end = eventually(lambda process=process: head.end(process))
        assert end.killed_by is KilledBy.LIMIT, place
        # It may be measured while it grows.
        assert re.fullmatch(r"it uses [5-8] MiB of disk, and may use 5 MiB", end.reason), place
    eventually(lambda: containers.left() == [])


def test_cores_and_memory_of_a_container_are_measured(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.start(PIT_GPU_SPEEDUP="50")
    containers.run(1, "while :; do :; done")
    found = []

    def is_busy() -> bool:
        found.extend(report.usage for report in list(head.reports.values()) if report.usage)
        return any((usage.cpu_percent or 0) > 5 and (usage.memory_mib or 0) > 0.1 for usage in found)

    assert eventually(is_busy)
    head.stop(1)
    eventually(lambda: head.end(1))
