"""Images are pulled once for all processes that wait, with progress, and removed when there are too many."""

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from pit_protocol.messages.beat import Pull
from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers, add_image
from tests.support.servers.registry import Registry
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    registry = Registry(tmp_path_factory.mktemp("registry"))
    yield registry
    registry.close()


class Shelf:
    """Images of one test in the registry; none of them stays here."""

    def __init__(self, client: docker.DockerClient, registry: Registry, tree: Path) -> None:
        self._client = client
        self._registry = registry
        self._tree = tree
        self._names: list[str] = []

    def add(self, text: str, name: str = "") -> str:
        """An image unlike any other, to be pulled by the name given back."""
        own = f"pit-test-{uuid.uuid4().hex[:8]}:own"
        (self._tree / "etc/text").write_text(text + own)
        add_image(self._client, self._tree, own)
        whole = self._registry.add(self._client, own, name or f"lab/{uuid.uuid4().hex[:8]}:1")
        self._client.images.remove(own)
        self._names.append(whole)
        return whole

    def has(self, name: str) -> bool:
        try:
            self._client.api.inspect_image(name)
        except docker.errors.ImageNotFound:
            return False
        return True

    def close(self) -> None:
        for name in self._names:
            with suppress(docker.errors.ImageNotFound):
                self._client.images.remove(name, force=True)


@pytest.fixture
def shelf(engine: docker.DockerClient, registry: Registry, tree: Path, tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(engine, registry, tree)
    yield shelf
    shelf.close()


def pulls(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("pull: ")]


def test_a_missing_image_is_pulled_once_for_all_and_reported_by_its_digest(
    head: StubHead, containers: Containers, eventually: Eventually, shelf: Shelf
):
    name = shelf.add("one")
    for process in (1, 2, 3):
        containers.run(process, "echo ran", image=name, pull=Pull.MISSING, name=f"p{process}")
    containers.start()
    for process in (1, 2, 3):
        end = eventually(lambda process=process: head.end(process))
        assert end.exit_code == 0
        assert end.image.startswith(name.rpartition(":")[0] + "@sha256:")
        assert pulls(head.log(process))[-1] == f"pull: done, {end.image}"
        assert head.log(process).endswith("ran\n")
    containers.run(4, "echo ran", image=name, pull=Pull.MISSING)
    eventually(lambda: head.end(4))
    assert head.log(4) == "ran\n"
    containers.run(5, "echo ran", image=end.image, pull=Pull.MISSING)
    assert eventually(lambda: head.end(5)).image == end.image


def test_always_pulls_the_registrys_present_image(
    head: StubHead, containers: Containers, eventually: Eventually, shelf: Shelf
):
    containers.start()
    name = shelf.add("old", "lab/moving:1")
    containers.run(1, "cat /etc/text", image=name, pull=Pull.MISSING)
    eventually(lambda: head.end(1))
    containers.client.images.remove(name, force=True)
    shelf.add("new", "lab/moving:1")
    containers.run(2, "cat /etc/text", image=name, pull=Pull.ALWAYS)
    eventually(lambda: head.end(2))
    assert head.log(2).splitlines()[-1].startswith("new")
    eventually(lambda: containers.left() == [])


@pytest.mark.threat("F38")
def test_a_failed_pull_is_a_sentence_and_others_start_meanwhile(
    head: StubHead, containers: Containers, eventually: Eventually, registry: Registry
):
    containers.start()
    missing = f"127.0.0.1:{registry.port}/lab/missing:1"
    containers.run(1, "true", image=missing, pull=Pull.MISSING)
    containers.run(2, "true", image="127.0.0.1:1/lab/x:1", pull=Pull.MISSING)
    containers.run(3, "true", image="pit-test-none:1", pull=Pull.NEVER)
    containers.run(4, "true", image="Not an image", pull=Pull.MISSING)
    containers.run(5, "true")
    assert eventually(lambda: head.end(5)).exit_code == 0
    assert head.end(2) is None
    ends = {number: eventually(lambda number=number: head.end(number)) for number in (1, 2, 3, 4)}
    assert {end.killed_by for end in ends.values()} == {KilledBy.WORKER}
    assert [end.reason for end in ends.values()] == [
        f"there is no image {missing}",
        "the registry 127.0.0.1:1 cannot be reached: connection refused",
        "this node has no image pit-test-none:1, and must not pull it",
        "'Not an image' is not the name of an image",
    ]
    assert head.log(2).count("trying again") == 2


def test_the_least_recently_used_image_is_removed(
    head: StubHead, containers: Containers, eventually: Eventually, shelf: Shelf
):
    old, used, new = (shelf.add(text) for text in ("old", "used", "new"))
    first = containers.start()
    for process, image in ((1, old), (2, used), (3, old)):
        containers.run(process, "true", image=image, pull=Pull.MISSING)
        eventually(lambda process=process: head.end(process))
    eventually(lambda: containers.left() == [])
    containers.kill(first)
    record = containers.spool / "images"
    uses = json.loads(record.read_text())
    assert {use["name"] for use in uses.values()} == {old, used}
    for use in uses.values():
        use["size"] = 2**29
    record.write_text(json.dumps(uses))
    containers.start(PIT_WORKER_IMAGE_CACHE_GIB="1")
    containers.run(4, "true", image=new, pull=Pull.MISSING)
    eventually(lambda: head.end(4))
    # The second was used before the first's second time.
    eventually(lambda: not shelf.has(used))
    assert shelf.has(old) and shelf.has(new) and shelf.has(containers.image)
