"""Processes of one job reach each other by name, those of another job do not."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from pit_protocol.messages.beat import HOST, Order, OrderAction
from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.docker.one_worker.conftest import POOL
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

# Two that meet: each answers until both have found the other.
SERVE = "until [ -e $JOB_DIR/go ]; do sleep 0.05; done"


def test_processes_of_one_job_reach_each_other_by_name(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    for process, other in ((1, 2), (2, 1)):
        find = (
            f"until nslookup host{other} >/dev/null 2>&1; do sleep 0.1; done; nslookup host{other}; hostname"
        )
        containers.run(process, f"{find}; {SERVE}", name=f"host{process}")
    eventually(lambda: head.log(1).endswith("host1\n") and head.log(2).endswith("host2\n"))
    network = f"pit-{head.cluster}-1-1"
    found = containers.client.api.inspect_network(network)
    assert len(found["Containers"]) == 2
    for process in (1, 2):
        containers.run(10 + process, "true")  # one more of the job comes and goes
        eventually(lambda process=process: head.end(10 + process))
    assert len(containers.client.api.inspect_network(network)["Containers"]) == 2
    (own_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1) and head.end(2))
    eventually(lambda: containers.left() == [])


@pytest.mark.threat("S40")
def test_another_jobs_process_is_not_reached_by_name_or_address(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    listen = "nc -l -p 7000 -e echo hello & "
    containers.run(1, f"{listen} echo ready; {SERVE}", name="host1")
    eventually(lambda: head.log(1))
    networks = containers.inspect(1)["NetworkSettings"]["Networks"]
    address = networks[f"pit-{head.cluster}-1-1"]["IPAddress"]
    reach = f"echo | nc -w 1 {address} 7000 || echo refused; nslookup host1 >/dev/null 2>&1 || echo unknown"
    containers.run(2, reach, name="host1", job=2)
    eventually(lambda: head.end(2))
    assert head.log(2).replace("nc: timed out\n", "").splitlines()[0] == "refused"
    assert "hello" not in head.log(2)
    containers.run(3, f"echo | nc -w 2 {address} 7000", name="host3")
    eventually(lambda: head.end(3))
    assert head.log(3) == "hello\n"
    (own_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))


def test_host_network_is_the_nodes_own(head: StubHead, containers: Containers, eventually: Eventually):
    containers.run(1, f"nc -w 2 127.0.0.1 {head.port} </dev/null && echo reached", network=HOST, name="")
    assert eventually(lambda: head.end(1)).exit_code == 0
    assert head.log(1).endswith("reached\n")


def test_a_network_created_by_an_admin_is_joined_by_name(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    name = f"pit-test-{head.cluster}"
    containers.client.api.create_network(name, labels={"pit.cluster": head.cluster})
    containers.run(1, SERVE, network=name, name="host1")
    containers.run(
        2, "until nslookup host1 >/dev/null 2>&1; do sleep 0.1; done", network=name, name="host2", job=2
    )
    assert eventually(lambda: head.end(2)).exit_code == 0
    (own_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))
    eventually(lambda: containers.left() == [name])
    containers.client.api.remove_network(name)


def test_a_missing_network_is_named(head: StubHead, containers: Containers, eventually: Eventually):
    containers.run(1, "true", network="nowhere")
    end = eventually(lambda: head.end(1))
    assert end.killed_by is KilledBy.WORKER
    assert (
        end.reason == "this node has no network nowhere; an admin can create it with `docker network create`"
    )


def test_addresses_come_from_the_pool_and_a_process_waits_while_there_are_none(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    containers.run(1, SERVE, env={"WORLD_SIZE": "40"})
    eventually(lambda: head.state(1) == "running")
    containers.run(2, SERVE, job=2)
    containers.run(3, SERVE, job=3)
    eventually(lambda: [head.state(process) for process in (2, 3)] == ["running"] * 2)
    networks = containers.client.api.networks(filters={"label": f"pit.cluster={head.cluster}"})
    subnets = [IPv4Network(each["IPAM"]["Config"][0]["Subnet"]) for each in networks]
    assert sorted(subnet.prefixlen for subnet in subnets) == [26, 27, 27]
    assert all(subnet.subnet_of(IPv4Network(POOL)) for subnet in subnets)
    containers.run(4, "echo at last", job=4)
    containers.run(5, "true", job=5)
    full = "no addresses are left for another network; `network_pool` in its worker.toml gives more"
    eventually(lambda: head.spoken[-1].trouble == full)
    waits = "pit: not started yet: no addresses are left for another network; trying again\n"
    eventually(lambda: waits == head.log(4) == head.log(5))
    head.order(Order(5, 1, OrderAction.STOP))
    assert eventually(lambda: head.end(5)).reason == "stopped before it began"
    (own_root / "jobs/1/go").touch()
    eventually(lambda: all(head.end(process) for process in (1, 2, 3, 4)))
    assert (head.end(4).exit_code, head.log(4).endswith("at last\n")) == (0, True)
    eventually(lambda: head.spoken[-1].trouble == "")
    eventually(lambda: containers.left() == [])


def test_a_job_too_large_for_the_pool_is_refused(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "true", env={"WORLD_SIZE": "400"})
    assert eventually(lambda: head.end(1)).reason == (
        "this node cannot have addresses for 400 containers; `network_pool` in its worker.toml gives more"
    )
