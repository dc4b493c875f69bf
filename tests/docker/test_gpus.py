"""GPUs in containers, with an engine that has the toolkit and a stand-in for NVIDIA's library."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_protocol.messages.beat import HOST
from tests.docker.conftest import Containers, add_image
from tests.docker.test_cluster import first_admin, node
from tests.support.clusters.lab import Lab
from tests.support.clusters.local import eventually as patiently
from tests.support.nvml.fake import FakeGpu, FakeNvml
from tests.support.servers.docker_engine import OwnEngine
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

GPUS = [FakeGpu(f"GPU-{index}", model="GeForce GTX 1070", busy_percent=50) for index in range(2)]


@pytest.fixture(scope="module")
def own(tree: Path) -> Iterator[OwnEngine]:
    engine = OwnEngine(gpus=True)
    try:
        add_image(engine.client, tree, "pit-test:1")
        yield engine
    finally:
        engine.close()


@pytest.mark.threat("S38", "S39")
def test_a_process_sees_the_gpus_it_was_given_and_no_others(
    head: StubHead, theirs: Containers, eventually: Eventually
):
    theirs.start()
    show = "echo $NVIDIA_VISIBLE_DEVICES $NVIDIA_DRIVER_CAPABILITIES $CUDA_DEVICE_ORDER"
    env = {"NVIDIA_VISIBLE_DEVICES": "all"}
    theirs.run(1, show, units=("GPU-abc", "GPU-def"), env=env, network=HOST, name="")
    theirs.run(2, show, env=env, network=HOST, name="")
    eventually(lambda: head.end(1) and head.end(2))
    assert head.log(1) == "GPU-abc,GPU-def compute,utility PCI_BUS_ID\n"
    assert head.log(2) == "void PCI_BUS_ID\n"


def test_gpus_are_given_by_uuid_and_their_usage_is_shown(own: OwnEngine, tmp_path: Path) -> None:
    nvml = FakeNvml(tmp_path / "nvml", GPUS)
    lab = Lab(tmp_path, PIT_HEAD_IMAGE="pit-test:1", PIT_HEAD_PULL="never")
    try:
        lab.start_head()
        root = first_admin(lab)
        node(lab, root, DOCKER_HOST=own.host, **nvml.environ)
        shown = root.ok("show", "node:n0")
        assert '0: "GeForce GTX 1070" aka "gtx1070" (cuda 0)' in shown
        env = "env | grep NVIDIA_VISIBLE_DEVICES; sleep 0.5"
        both = root.ok("run", "First light", "[2:gtx1070]", "-l", "-d", env)
        assert "NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1" in both
        each = root.ok("run", "Second light", "2:[gtx1070]", "-l", "-d", env)
        assert "NVIDIA_VISIBLE_DEVICES=GPU-0" in each and "NVIDIA_VISIBLE_DEVICES=GPU-1" in each
        none = root.ok("run", "No light", "[]", "-l", "-d", env)
        assert "NVIDIA_VISIBLE_DEVICES=void" in none
        assert root.json("show", "1")["gpu_percent"] == 50.0
        nvml.set([])
        patiently(lambda: "is gone" in root.ok("show", "node:n0"))
        assert root.json("run", "waits", "[gtx1070]", "-d", "true")["state"] == "preparing"
        patiently(lambda: root.json("show", "4")["reason"] == "needs 1 gtx1070, 0 free, 2 out of use")
    finally:
        lab.close()
