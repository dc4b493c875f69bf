"""One job across two machines, each with an engine and a network of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from tests.docker.conftest import add_image
from tests.docker.test_cluster import first_admin
from tests.support.clusters.lab import Lab, Person
from tests.support.clusters.local import eventually
from tests.support.netns import Wires
from tests.support.servers.docker_engine import OwnEngine


@pytest.fixture
def root(tmp_path: Path, engine: docker.DockerClient, tree: Path) -> Iterator[Person]:
    with two_nodes(tmp_path, tree) as root:
        yield root


@contextmanager
def two_nodes(
    place: Path, tree: Path, prepare: Callable[[Wires, list[OwnEngine]], dict[str, str]] = lambda *_: {}
) -> Iterator[Person]:
    """The first user of a head with two machines; `prepare` makes settings of their workers."""
    wires = Wires(2)
    engines: list[OwnEngine] = []
    lab = Lab(place, wires.head, PIT_HEAD_IMAGE="far:1", PIT_HEAD_PULL="never")
    try:
        for machine in wires.machines:
            engines.append(OwnEngine(inside=machine.inside))
            add_image(engines[-1].client, tree, "far:1")
        more = prepare(wires, engines)
        lab.start_head()
        root = first_admin(lab)
        for index, (machine, own) in enumerate(zip(wires.machines, engines, strict=True)):
            config = lab.join(root.ok("add", f"node:n{index}"), f"n{index}", machine.address)
            settings = {"PIT_WORKER_RUNTIME": "docker", "DOCKER_HOST": own.host, **more}
            lab.start_worker(config, machine.inside, **settings)
        eventually(lambda: [n["state"] for n in root.json("show", "nodes")["nodes"]] == ["online"] * 2)
        yield root
    finally:
        lab.close()
        for own in engines:
            own.close()
        wires.close()


@pytest.mark.threat("S40")
def test_containers_on_two_machines_without_an_overlay_are_refused(root: Person) -> None:
    # They would need the network of their nodes, and reach what listens there on loopback.
    refused = root.pit("run", "far", "[]@n0,[]@n1", "-d", "true")
    assert refused.code == 1
    assert "containers on several nodes need an overlay network (`overlay` in worker.toml)" in refused.err
