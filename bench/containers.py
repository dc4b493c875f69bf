"""Containers started by the worker, compared with docker-py alone."""

import os
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import docker  # type: ignore[import-untyped]

from bench.sizes import Sizes
from bench.table import Row, decimal_bytes, ratio_row, seconds
from pit_protocol.states import ProcessState
from tests.docker.conftest import ANN, Containers, add_image, make_tree
from tests.support.stubs.worker_head import StubHead

FLOOD = "yes 0123456789012345678901234567890123456789012345678901234567890123 | head -c {}"


def measure(sizes: Sizes) -> list[Row]:
    """Without a Docker engine, one row that says so; in CI that is an error."""
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except (docker.errors.DockerException, OSError):
        if os.environ.get("CI"):
            raise
        return [Row("containers: no Docker engine here", "-")]
    with _workers(client) as containers:
        worker = containers.start()
        return [_starts(containers, sizes), _flood(containers, sizes), _idle(containers, sizes, worker.pid)]


@contextmanager
def _workers(client: docker.DockerClient) -> Iterator[Containers]:
    with tempfile.TemporaryDirectory() as place:
        folder, image = Path(place), f"pit-bench-{uuid.uuid4().hex[:8]}:1"
        root = folder / "data"
        for name in ("shared", "home/ann", "jobs/1/src", "jobs/1/keep"):
            (root / name).mkdir(parents=True)
        for name in ("home/ann", "jobs/1", "jobs/1/src", "jobs/1/keep"):
            shutil.chown(root / name, ANN.uid, ANN.gid)
        add_image(client, make_tree(folder / "tree"), image)
        head = StubHead(str(root))
        containers = Containers(head, folder, client, image)
        try:
            yield containers
        finally:
            containers.close()
            head.close()
            client.images.remove(image, force=True)


def _starts(containers: Containers, sizes: Sizes) -> Row:
    """Alternate, and swap the order each time, so that both run under the same conditions."""
    plain, ours = [], []
    for number in range(1, sizes.container_starts + 1):
        calls: list[Callable[[], None]] = [
            lambda: plain.append(_start_plain(containers)),
            lambda number=number: ours.append(_start(containers, number)),  # type: ignore[misc]
        ]
        for call in calls if number % 2 else reversed(calls):
            call()
    return ratio_row(
        "container start / docker-py, p50", statistics.median(ours), statistics.median(plain), 1.15
    )


def _start(containers: Containers, number: int) -> float:
    def start() -> None:
        containers.run(number, "sleep 1000", grace_s=0.0)
        _await(lambda: containers.head.state(number) is ProcessState.RUNNING)

    taken = seconds(start)
    containers.head.stop(number)
    _await(lambda: bool(containers.head.end(number)))
    _await(lambda: not containers.left())  # cleanup must not disturb the next start
    return taken


def _start_plain(containers: Containers) -> float:
    """The same with docker-py: a network, and a container in it."""
    api = containers.client.api
    name = f"pit-bench-{uuid.uuid4().hex[:8]}"

    def start() -> None:
        api.create_network(name, driver="bridge")
        config = api.create_host_config(network_mode=name, init=True, cap_drop=["ALL"])
        api.create_container(containers.image, ["sleep", "1000"], host_config=config, name=name)
        api.start(name)

    taken = seconds(start)
    api.remove_container(name, force=True)
    api.remove_network(name)
    return taken


def _flood(containers: Containers, sizes: Sizes) -> Row:
    """Ship a large log, compared with a container that writes the same bytes to a file."""
    number = sizes.container_starts + 1
    flood = FLOOD.format(sizes.log_bytes)
    target = containers.folder / "flood"
    target.mkdir()
    binds = [f"{target}:/out"]

    def write() -> None:
        containers.client.containers.run(
            containers.image, ["sh", "-c", f"{flood} >/out/file"], volumes=binds, remove=True
        )

    def ship() -> None:
        containers.run(number, flood)
        _await(lambda: bool(containers.head.end(number)), within_s=300)

    floor, ours = seconds(write), seconds(ship)
    size = len(containers.head.logs[number, 1])
    if size != sizes.log_bytes:
        raise RuntimeError(f"{size:,} bytes of log arrived")
    return ratio_row(f"{decimal_bytes(size)} of log / written to a file", ours, floor, 1.5)


def _idle(containers: Containers, sizes: Sizes, pid: int) -> Row:
    first = sizes.container_starts + 2
    numbers = range(first, first + sizes.idle_containers)
    for number in numbers:
        containers.run(number, "sleep 1000", grace_s=0.0, network="host")
    _await(lambda: all(containers.head.state(n) is ProcessState.RUNNING for n in numbers), within_s=300)
    time.sleep(sizes.settle_s)
    before = _cpu_s(pid)
    time.sleep(sizes.idle_s)
    share = (_cpu_s(pid) - before) / sizes.idle_s
    for number in numbers:
        containers.head.stop(number)
    _await(lambda: all(containers.head.end(number) for number in numbers), within_s=300)
    what = f"worker idle with {sizes.idle_containers} containers"
    return Row(what, f"{share:.1%} of a core", goal="≤ 1 %", is_met=share <= 0.01)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _await(claim: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = perf_counter() + within_s
    while not claim():
        if perf_counter() > deadline:
            raise RuntimeError(f"the condition was not met within {within_s:g} s")
        time.sleep(0.002)
