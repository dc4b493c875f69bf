"""Two machines on one: network namespaces of the test's own, wired to a bridge of its own."""

import random
import subprocess
import uuid
from ipaddress import IPv4Network

from pit_worker.runtime.docker.network.subnets import read_routes
from tests.support.requirements import need_programs, need_system_rights


class Machine:
    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.inside = ("nsenter", f"--net=/var/run/netns/{name}")


class Wires:
    """Creates the machines; `close` removes all that was created."""

    def __init__(self, count: int) -> None:
        need_programs("ip", "iptables")
        need_system_rights()
        tag = uuid.uuid4().hex[:6]
        self._bridge = f"pitb{tag}"
        _ip("link", "add", self._bridge, "type", "bridge")
        net = _find_net()
        self.head = f"{net}.1"  # this machine's own address
        _ip("addr", "add", f"{self.head}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        # The machine's own engine blocks packets between bridges, and within bridges that are not its own.
        self._rule = ("FORWARD", "-i", self._bridge, "-o", self._bridge, "-j", "ACCEPT")
        subprocess.run(["iptables", "-I", *self._rule], check=True)
        self.machines = [self._wire(f"pit{tag}{index}", f"{net}.{10 + index}") for index in range(count)]

    def close(self) -> None:
        for machine in self.machines:
            _ip("netns", "del", machine.name)
        _ip("link", "del", self._bridge)
        subprocess.run(["iptables", "-D", *self._rule], check=True)

    def _wire(self, name: str, address: str) -> Machine:
        machine = Machine(name, address)
        _ip("netns", "add", name)
        _ip("link", "add", f"{name}h", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", f"{name}h", "master", self._bridge, "up")
        for words in (
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            subprocess.run([*machine.inside, "ip", *words], check=True)
        return machine


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _find_net() -> str:
    """Other test runs on this machine use other ones."""
    taken = read_routes()
    while True:
        net = f"10.77.{random.randrange(256)}"
        if not any(IPv4Network(f"{net}.0/24").overlaps(route) for route in taken):
            return net
