"""Private networks reach other machines, but not the node itself."""

import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tests.docker.conftest import Containers
from tests.support.netns import Wires
from tests.support.requirements import lack
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

GATEWAY = "$(ip route | grep default | cut -d ' ' -f 3)"


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of this machine, on all its addresses, where a server says hello."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        threading.Thread(target=_greet, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _greet(server: socket.socket) -> None:
    while True:
        try:
            line = server.accept()[0]
        except OSError:
            return
        with line:
            line.sendall(b"hello\n")


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires(1)
    yield wires
    wires.close()


def reach(address: str, port: int) -> str:
    return f"nc -w 3 {address} {port} </dev/null 2>&1"


@pytest.mark.threat("S40")
def test_containers_cannot_reach_the_node_by_any_address(
    head: StubHead, containers: Containers, eventually: Eventually, listener: int, wires: Wires
):
    containers.start()
    tries = [reach(GATEWAY, listener), reach(wires.head, listener), reach("169.254.169.254", 80)]
    containers.run(
        1, f"ip route | grep -c default; {'; '.join(tries)}; ping -c 1 -W 1 {wires.head}; echo over"
    )
    eventually(lambda: head.end(1))
    lines = head.log(1).splitlines()
    assert lines[0] == "1"
    assert head.log(1).count("Connection refused") == 3, head.log(1)
    assert "hello" not in head.log(1)


def test_containers_reach_other_machines_and_what_is_allowed(
    head: StubHead, containers: Containers, eventually: Eventually, listener: int, wires: Wires
):
    (machine,) = wires.machines
    containers.start(PIT_WORKER_NETWORK_ALLOW=f"{wires.head}:{listener}")
    with subprocess.Popen(
        [*machine.inside, "busybox", "nc", "-l", "-p", "7000", "-e", "echo", "afar"]
    ) as far:
        tries = [reach(machine.address, 7000), reach(wires.head, listener), reach(GATEWAY, listener)]
        containers.run(1, f"{'; '.join(tries)}; nslookup p0 | grep -c Address")
        eventually(lambda: head.end(1))
        far.kill()
    lines = head.log(1).splitlines()
    assert lines[:2] == ["afar", "hello"]
    assert "Connection refused" in lines[2]
    assert int(lines[-1]) >= 1


def test_rules_are_installed_once_and_again_after_someone_removed_them(
    head: StubHead, containers: Containers, eventually: Eventually, listener: int
):
    first = containers.start()
    command = reach(GATEWAY, listener)
    containers.run(1, command)
    eventually(lambda: head.end(1))
    containers.kill(first)
    containers.start()
    eventually(lambda: len(hooks(containers)) == 2)
    for rule in hooks(containers):
        subprocess.run(["iptables", "-D", *rule.split()[1:]], check=True)
    containers.run(2, command)
    eventually(lambda: head.end(2))
    assert "Connection refused" in head.log(1) and "Connection refused" in head.log(2)
    assert len(hooks(containers)) == 2


def test_a_worker_without_processes_removes_its_rules_on_exit(
    head: StubHead, containers: Containers, eventually: Eventually
):
    worker = containers.start()
    eventually(lambda: len(hooks(containers)) == 2)
    worker.terminate()
    assert worker.wait(120) == 0
    assert hooks(containers) == []


def test_doctor_checks_the_firewall(containers: Containers, eventually: Eventually):
    def check() -> str:
        return next(line for line in containers.doctor() if "firewall" in line)

    assert check() == "! firewall: none around private networks"
    containers.start()
    eventually(lambda: len(hooks(containers)) == 2)
    assert check() == "✓ firewall: private networks do not reach this node"


def hooks(containers: Containers) -> list[str]:
    """The rules that lead to this worker's chains."""
    told = subprocess.run(["iptables", "-S"], capture_output=True, text=True, check=False)
    if told.returncode:
        lack("no iptables, or no right to use it")
    return [line for line in told.stdout.splitlines() if f"-i {containers.bridges}+" in line]
