"""One job across two machines, each with an engine and a network of its own.

Containers meet on an overlay that an admin has created, other processes by the addresses of their nodes.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from tests.docker.conftest import add_image
from tests.docker.test_cluster import first_admin
from tests.support.clusters.lab import Lab, Person
from tests.support.clusters.local import eventually
from tests.support.netns import Wires
from tests.support.servers.docker_engine import OwnEngine

IMAGE = "far:1"
NETWORK, SUBNET = "lab", "10.78.0.0/24"
MEET = """
if [ "$GROUP_INDEX" = 0 ]; then echo "hello from afar" | busybox nc -l -p "$MASTER_PORT"; else
until busybox nc "$MASTER_ADDR" "$MASTER_PORT" 2>/dev/null; do sleep 0.1; done; fi
echo "process $RANK at $HOST_GROUP0_PROCESS0 and $HOST_GROUP1_PROCESS0"
"""
MEET_BY_NAME = """
if [ "$GROUP_INDEX" = 0 ]; then echo "hello from afar" | nc -l -p "$MASTER_PORT"; else
until nc "$HOST_GROUP0_PROCESS0" "$MASTER_PORT" 2>/dev/null; do sleep 0.1; done; fi
echo "process $RANK is $(hostname) and knows $HOST_GROUP0_PROCESS0 and $HOST_GROUP1_PROCESS0"
ip addr | grep -c 10.78.0.
echo "metadata: $(nc -w 3 169.254.169.254 80 </dev/null 2>&1)"
"""


class TwoMachines:
    """A head, and two machines that run no worker yet; `close` removes all of it."""

    def __init__(self, place: Path, tree: Path) -> None:
        self.engines: list[OwnEngine] = []
        self._wires = Wires(2)
        self._lab = Lab(place, self._wires.head, PIT_HEAD_IMAGE=IMAGE, PIT_HEAD_PULL="never")
        try:
            for machine in self._wires.machines:
                self.engines.append(OwnEngine(inside=machine.inside))
                add_image(self.engines[-1].client, tree, IMAGE)
            self._lab.start_head()
            self.root = first_admin(self._lab)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lab.close()
        for own in reversed(self.engines):
            with suppress(docker.errors.APIError):
                own.client.swarm.leave(force=True)
            own.close()
        self._wires.close()

    def add_nodes(self, *names: str, **settings: str) -> None:
        """Start a worker on each machine."""
        for name, machine, own in zip(names, self._wires.machines, self.engines, strict=True):
            config = self._lab.join(self.root.ok("add", f"node:{name}"), name, machine.address)
            self._lab.start_worker(config, machine.inside, DOCKER_HOST=own.host, **settings)
        eventually(lambda: {n["state"] for n in self.root.json("show", "nodes")["nodes"]} == {"online"})

    def route_metadata(self) -> None:
        """A way to where clouds have their metadata service, as a machine in a cloud has it."""
        for machine in self._wires.machines:
            route = ["ip", "route", "add", "169.254.169.254", "via", self._wires.head]
            subprocess.run([*machine.inside, *route], check=True)

    def make_swarm(self) -> None:
        """A swarm of both machines; only the first sees the network before a container uses it."""
        first, second = (own.client for own in self.engines)
        here, there = (machine.address for machine in self._wires.machines)
        first.swarm.init(advertise_addr=here, listen_addr=f"{here}:2377")
        token = first.swarm.attrs["JoinTokens"]["Worker"]
        second.swarm.join([f"{here}:2377"], token, advertise_addr=there, listen_addr=f"{there}:2377")
        ipam = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=SUBNET)])
        first.networks.create(NETWORK, driver="overlay", attachable=True, ipam=ipam)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, tree: Path) -> Iterator[TwoMachines]:
    machines = TwoMachines(tmp_path_factory.mktemp("lab"), tree)
    yield machines
    machines.close()


@pytest.fixture(scope="module")
def root(machines: TwoMachines) -> Person:
    """Each machine has a node with each runtime."""
    machines.make_swarm()
    machines.add_nodes("p0", "p1", PIT_WORKER_RUNTIME="process")
    machines.add_nodes("n0", "n1", PIT_WORKER_RUNTIME="docker", PIT_WORKER_OVERLAY=NETWORK)
    return machines.root


def last_job(root: Person) -> tuple[int, list[dict[str, object]]]:
    """Its number and its processes."""
    number = root.json("show", "jobs")["jobs"][0]["number"]
    return number, root.json("show", str(number))["processes"]


def test_processes_on_two_machines_meet_by_their_addresses(root: Person) -> None:
    log = root.ok("run", "far", "[]@p0,[]@p1", "-l", "--runtime", "process", "-d", MEET)
    assert "[worker 1] hello from afar" in log
    first, second = (root.json("show", f"node:{name}")["address"] for name in ("p0", "p1"))
    for rank in (0, 1):
        assert f"[worker {rank}] process {rank} at {first} and {second}" in log
    assert [p["node"] for p in last_job(root)[1]] == ["p0", "p1"]


def test_a_process_that_fails_on_another_node_stops_the_others(root: Person) -> None:
    command = 'if [ "$GROUP_INDEX" = 1 ]; then echo about to fail; exit 7; fi; sleep 600'
    result = root.pit("run", "gang", "[]@n0,[]@n1", "-l", "-d", command)
    assert result.code == 3
    assert "last lines of worker 1, which failed first:" in result.out
    first, second = last_job(root)[1]
    assert first["killed_by"] == "job"  # without exit code if its container had not started yet
    assert (second["exit_code"], second["killed_by"]) == (7, None)


def test_processes_on_two_machines_meet_by_name_on_their_overlay(root: Person, machines: TwoMachines) -> None:
    machines.route_metadata()
    log = root.ok("run", "by name", "[]@n0,[]@n1", "-l", "-d", MEET_BY_NAME)
    number, processes = last_job(root)
    assert "[worker 1] hello from afar" in log
    names = [f"job{number}-1-group{group}-process0" for group in (0, 1)]
    for rank in (0, 1):
        assert f"[worker {rank}] process {rank} is {names[rank]} and knows {names[0]} and {names[1]}" in log
        assert f"[worker {rank}] 1\n" in log
        assert re.search(rf"\[worker {rank}\] metadata: .*Connection refused", log), log
    assert [p["node"] for p in processes] == ["n0", "n1"]
    eventually(lambda: not any(own.client.containers.list(all=True) for own in machines.engines))
    machines.engines[0].client.networks.get(NETWORK).remove()
    refused = root.pit("run", "far", "[]@n0,[]@n1", "-l", "-d", MEET_BY_NAME)
    assert (refused.code, "this node has no network lab; an admin can create it" in refused.out) == (3, True)
