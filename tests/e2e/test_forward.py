"""Ports of running jobs on the user's machine, through the installed `pit`."""

import errno
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.support.clusters.local import PIT, Cluster, eventually

MIB = 1024 * 1024
PARALLEL = 20
WITHIN_S = 60.0
# Serves its directory by HTTP; echoes a connection after the client's end of it; greets and ends its own
# direction before it reads; holds a port that nobody listens on.
SERVER = """
import http.server, os, socket, socketserver, threading

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        data = b"".join(iter(lambda: self.request.recv(65536), b""))
        if data == b"leave":
            os._exit(0)
        self.request.sendall(data)

class Greeter(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello")
        self.request.shutdown(socket.SHUT_WR)
        data = b"".join(iter(lambda: self.request.recv(65536), b""))
        print("heard", len(data), flush=True)

class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64

place = ("127.0.0.1", 0)
web = http.server.ThreadingHTTPServer(place, http.server.SimpleHTTPRequestHandler)
servers = [web, Server(place, Echo), Server(place, Greeter)]
closed = socket.socket()
closed.bind(place)
for server in servers:
    threading.Thread(target=server.serve_forever).start()
print("ports", *[server.server_address[1] for server in servers], closed.getsockname()[1], flush=True)
"""


@contextmanager
def forwarded(
    cluster: Cluster, place: Path, *words: str
) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """A running `pit forward --json`, and its local ports."""
    with (place / "stderr").open("w") as stderr:
        child = subprocess.Popen(
            [PIT, "forward", "--json", *words],
            cwd=cluster.project.path,
            env=cluster.env,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert child.stdout
    try:
        shown = [json.loads(child.stdout.readline() or "null") for word in words if ":" in word]
        assert all(shown), (place / "stderr").read_text()
        yield child, [line["local_port"] for line in shown]
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def exchange(port: int, data: bytes) -> bytes:
    """Send it all and end that direction; what comes back until the end."""
    with socket.create_connection(("127.0.0.1", port), WITHIN_S) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def is_broken(port: int, data: bytes = b"") -> bool:
    """Whether a connection ends without an answer."""
    try:
        return exchange(port, data) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True
    except OSError as error:
        return error.errno == errno.ENOTCONN  # it was reset before its own end was sent


def is_running(cluster: Cluster, number: int) -> bool:
    return [process["state"] for process in cluster.record(number)["processes"]] == ["running"]


def test_ports_of_a_job_are_reached_by_many_connections(used_cluster: Cluster, tmp_path: Path) -> None:
    cluster = used_cluster
    cluster.project.write("server.py", SERVER)
    number = cluster.run("exec python3 server.py")
    eventually(lambda: is_running(cluster, number) and "ports " in cluster.log_text(number))
    line = next(line for line in cluster.log_text(number).splitlines() if "ports " in line)
    remote = line.split("ports ")[1].split()
    words = [str(number), *(f"0:{port}" for port in remote)]
    with forwarded(cluster, tmp_path, *words) as (child, (web, echo, greeter, closed)):
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/server.py", timeout=WITHIN_S) as answer:
            assert answer.read().decode() == SERVER

        blocks = [os.urandom(MIB + index) for index in range(PARALLEL)]
        with ThreadPoolExecutor(PARALLEL) as threads:
            assert list(threads.map(lambda block: exchange(echo, block), blocks)) == blocks

        with socket.create_connection(("127.0.0.1", greeter), WITHIN_S) as sock:
            assert b"".join(iter(lambda: sock.recv(100), b"")) == b"hello"
            sock.sendall(b"x" * MIB)
        eventually(lambda: f"heard {MIB}" in cluster.log_text(number))

        assert is_broken(closed)
        assert exchange(echo, b"still there") == b"still there"
        stderr = tmp_path / "stderr"
        assert stderr.read_text() == f"pit: port {remote[3]} of the process: connection refused\n"

        busy = cluster.pit("forward", str(number), f"{echo}:{remote[1]}")
        assert f"port {echo} of this machine is in use" in busy.err
        assert f"write 0:{remote[1]}" in busy.err

        assert is_broken(echo, b"leave")
        assert child.wait(WITHIN_S) == 1
        assert "the process has ended, and the session with it" in stderr.read_text()
    assert cluster.wait(number)["outcome"] == "succeeded"
    assert f"job {number} has ended" in cluster.pit("forward", str(number), "8888").err


def test_ctrl_c_ends_the_command_alone(used_cluster: Cluster, tmp_path: Path) -> None:
    cluster = used_cluster
    number = cluster.run("exec sleep 1000")
    eventually(lambda: is_running(cluster, number))
    with forwarded(cluster, tmp_path, str(number), "0:8888") as (child, _):
        child.send_signal(signal.SIGINT)
        assert child.wait(WITHIN_S) == 130
    assert cluster.record(number)["state"] == "running"
    cluster.ok("stop", str(number))
