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

MEET = """
if [ "$GROUP_INDEX" = 0 ]; then echo "hello from afar" | nc -l -p "$MASTER_PORT"; else
until nc "$MASTER_ADDR" "$MASTER_PORT" 2>/dev/null; do sleep 0.1; done; fi
echo "process $RANK at $HOST_GROUP0_PROCESS0 and $HOST_GROUP1_PROCESS0"
"""


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


def test_processes_on_two_machines_meet_by_their_addresses(root: Person) -> None:
    log = root.ok("run", "far", "[]@n0,[]@n1", "-l", "-d", MEET)
    assert "[worker 1] hello from afar" in log
    first, second = (node["address"] for node in root.json("show", "nodes")["nodes"])
    for rank in (0, 1):
        assert f"[worker {rank}] process {rank} at {first} and {second}" in log
    assert [p["node"] for p in root.json("show", "1")["processes"]] == ["n0", "n1"]


def test_a_process_that_fails_on_another_node_stops_the_others(root: Person) -> None:
    command = 'if [ "$GROUP_INDEX" = 1 ]; then echo about to fail; exit 7; fi; sleep 600'
    result = root.pit("run", "gang", "[]@n0,[]@n1", "-l", "-d", command)
    assert result.code == 3
    assert "last lines of worker 1, which failed first:" in result.out
    ends = [(p["exit_code"], p["killed_by"]) for p in root.json("show", "1")["processes"]]
    assert ends == [(143, "job"), (7, None)]
