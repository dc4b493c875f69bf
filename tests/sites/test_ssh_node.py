"""`pit add node:n7 --ssh`: a real sshd on loopback, and this machine once more as a node."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_worker.admin.background import PID_FILE
from tests.support.clusters.fixtures import cluster, project  # noqa: F401
from tests.support.clusters.local import Cluster, eventually, is_alive
from tests.support.servers.git import SshServer

pytestmark = pytest.mark.xdist_group("ssh")
WORKER = Path(sys.executable).with_name("pit-worker")


class Machine:
    """A machine that ssh reaches as `n7`, by a configuration of the test's own."""

    def __init__(self, place: Path, server: SshServer, keys: Path) -> None:
        self.config, self.state = place / "n7", place / "n7-state"
        self.config.mkdir()
        (self.config / "worker.toml").write_text(
            f'spool = "{self.state}/spool"\nsearch_path = "{os.environ["PATH"]}"\n'
        )
        self.known_hosts = place / "known_hosts"
        host_key = " ".join((keys / "host.pub").read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{server.port} {host_key}\n")
        (place / "ssh_config").write_text(
            f"Host n7\n HostName 127.0.0.1\n Port {server.port}\n IdentityFile {keys / 'user'}\n"
            f" IdentitiesOnly yes\n"
            f" UserKnownHostsFile {self.known_hosts}\n GlobalKnownHostsFile /dev/null\n"
        )
        # The machine's own pit-worker, with a directory apart from that of other workers here.
        _write_program(keys / "bin/pit-worker", f'exec {WORKER} "$@" --config {self.config}')
        _write_program(
            place / "bin/ssh", f'echo "$@" >>{place}/arguments; exec /usr/bin/ssh -F {place}/ssh_config "$@"'
        )
        self.arguments = place / "arguments"
        self.path = f"{place}/bin:{os.environ['PATH']}"

    @property
    def pid(self) -> int:
        return int((self.state / PID_FILE).read_text().split()[0])


def _write_program(file: Path, command: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with SshServer(tmp_path / "sshd") as server:
        made = Machine(tmp_path, server, tmp_path / "sshd")
        yield made
        if (made.state / PID_FILE).exists():
            os.kill(made.pid, signal.SIGTERM)
            eventually(lambda: not is_alive(made.pid))


def test_a_machine_becomes_a_node_by_ssh_again_and_again(cluster: Cluster, machine: Machine) -> None:  # noqa: F811
    done = cluster.pit("add", "node:n7", "label.rack=r9", "--ssh", "root@n7", PATH=machine.path)
    assert done.code == 0, done
    assert "node:n7 is online" in done.out and "✓ head:" in done.out
    assert cluster.get("/nodes/n7")["labels"] == {"rack": "r9"}
    first = machine.pid
    number = cluster.run("echo there", "[]@n7")
    assert cluster.wait(number)["outcome"] == "succeeded"
    # The code went to stdin: no argument of ssh has it.
    assert "pit_" not in machine.arguments.read_text().replace("pit_worker", "")
    again = cluster.pit("add", "node:n7", "--ssh", "root@n7", PATH=machine.path)
    assert again.code == 0, again
    assert machine.pid != first and not is_alive(first)


def test_a_machine_with_an_unknown_key_gets_no_code(cluster: Cluster, machine: Machine) -> None:  # noqa: F811
    machine.known_hosts.write_text("")
    done = cluster.pit("add", "node:n7", "--ssh", "root@n7", PATH=machine.path)
    assert (done.code, "ssh does not reach root@n7" in done.err) == (1, True)
    assert not (machine.config / "node.token").exists()
