"""One job across two machines, on a network that spans both and that an admin has created."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from tests.docker.network.test_two_nodes import two_nodes
from tests.support.clusters.lab import Person
from tests.support.clusters.local import eventually
from tests.support.netns import Wires
from tests.support.servers.docker_engine import OwnEngine

NETWORK = "lab"
SUBNET = "10.78.0.0/24"
MEET = """
if [ "$GROUP_INDEX" = 0 ]; then echo "hello from afar" | nc -l -p "$MASTER_PORT"; else
until nc "$HOST_GROUP0_PROCESS0" "$MASTER_PORT" 2>/dev/null; do sleep 0.1; done; fi
echo "process $RANK is $(hostname) and knows $HOST_GROUP0_PROCESS0 and $HOST_GROUP1_PROCESS0"
ip addr | grep -c 10.78.0.
"""


def make_swarm(wires: Wires, engines: list[OwnEngine]) -> dict[str, str]:
    """A swarm of both machines; only the first sees the network before a container uses it."""
    first, second = (own.client for own in engines)
    here, there = (machine.address for machine in wires.machines)
    first.swarm.init(advertise_addr=here, listen_addr=f"{here}:2377")
    token = first.swarm.attrs["JoinTokens"]["Worker"]
    second.swarm.join([f"{here}:2377"], token, advertise_addr=there, listen_addr=f"{there}:2377")
    pool = docker.types.IPAMPool(subnet=SUBNET)
    first.networks.create(
        NETWORK, driver="overlay", attachable=True, ipam=docker.types.IPAMConfig(pool_configs=[pool])
    )
    return {"PIT_WORKER_OVERLAY": NETWORK}


@pytest.fixture
def engines() -> list[OwnEngine]:
    """Of both machines, once there is a root."""
    return []


@pytest.fixture
def root(
    tmp_path: Path, engine: docker.DockerClient, tree: Path, engines: list[OwnEngine]
) -> Iterator[Person]:
    def prepare(wires: Wires, made: list[OwnEngine]) -> dict[str, str]:
        engines.extend(made)
        return make_swarm(wires, made)

    with two_nodes(tmp_path, tree, prepare) as root:
        yield root
        for own in reversed(engines):
            with suppress(docker.errors.APIError):
                own.client.swarm.leave(force=True)


def test_processes_on_two_machines_meet_by_name_on_their_overlay(
    root: Person, engines: list[OwnEngine]
) -> None:
    log = root.ok("run", "far", "[]@n0,[]@n1", "-l", "-d", MEET)
    assert "[worker 1] hello from afar" in log
    names = [f"job1-1-group{group}-process0" for group in (0, 1)]
    for rank in (0, 1):
        assert f"[worker {rank}] process {rank} is {names[rank]} and knows {names[0]} and {names[1]}" in log
        assert f"[worker {rank}] 1\n" in log
    assert [p["node"] for p in root.json("show", "1")["processes"]] == ["n0", "n1"]
    eventually(lambda: not any(own.client.containers.list(all=True) for own in engines))
    engines[0].client.networks.get(NETWORK).remove()
    refused = root.pit("run", "far", "[]@n0,[]@n1", "-l", "-d", MEET)
    assert (refused.code, "this node has no network lab; an admin can create it" in refused.out) == (3, True)


def test_a_process_that_fails_on_another_node_stops_the_others(root: Person) -> None:
    command = 'if [ "$GROUP_INDEX" = 1 ]; then echo about to fail; exit 7; fi; sleep 600'
    result = root.pit("run", "gang", "[]@n0,[]@n1", "-l", "-d", command)
    assert result.code == 3
    assert "last lines of worker 1, which failed first:" in result.out
    ends = [(p["exit_code"], p["killed_by"]) for p in root.json("show", "1")["processes"]]
    assert ends == [(143, "job"), (7, None)]
