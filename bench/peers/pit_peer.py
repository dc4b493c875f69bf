"""The work on pit: one node, the process runtime, SQLite."""

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.latency import first_line
from bench.peers.peer import call_in_threads
from bench.queue import fill_queue
from bench.submitting import connect, snapshot, submit, wait
from bench.table import seconds
from pit.head.client import Head
from tests.support.clusters.local import PIT, Cluster, Project, eventually, running


class PitPeer:
    name = "pit"

    def __init__(self, cluster: Cluster, slots: int) -> None:
        self._cluster = cluster
        self._slots = slots
        self._clients = threading.local()
        cluster.ok("set", f"node:{cluster.json('show', 'nodes')['nodes'][0]['name']}", f"slots={slots}")
        self._code = snapshot(cluster, self._head)
        self._wait(submit(self._head, self._code, "true").number)

    @property
    def _head(self) -> Head:
        """A client for each thread, as each user has one."""
        if not hasattr(self._clients, "head"):
            self._clients.head = connect(self._cluster)
        head: Head = self._clients.head
        return head

    def run_single_jobs(self, count: int, clients: int) -> None:
        for number in self._submit(count, clients):
            self._wait(number)

    def run_array(self, count: int) -> None:
        self._wait(submit(self._head, self._code, "true", array=f"0-{count - 1}").number)

    def submit_waiting(self, count: int, clients: int) -> float:
        with self._full():
            numbers: list[int] = []
            taken = seconds(lambda: numbers.extend(self._submit(count, clients)))
            for number in numbers:
                self._head.stop(number)
        return taken

    def first_line(self) -> float:
        return first_line(self._head, self._code)

    def show_status(self) -> None:
        subprocess.run(
            [str(PIT), "status"],
            env=self._cluster.env, cwd=self._cluster.project.path, capture_output=True, check=True,
        )  # fmt: skip

    def fill_queue(self, count: int) -> None:
        fill_queue(self._cluster, self._block(), count)

    def large_array(self, count: int) -> tuple[float, float, float]:
        numbers: list[int] = []

        def submit_it() -> None:
            numbers.append(submit(self._head, self._code, "true", array=f"0-{count - 1}").number)

        def stop_it() -> None:
            self._head.stop(numbers[0])
            wait(self._head, numbers[0])

        with self._full():
            submitted = seconds(submit_it)
            eventually(lambda: self._head.job(numbers[0]).state != "preparing")
            return submitted, seconds(self.show_status), seconds(stop_it)

    def _submit(self, count: int, clients: int) -> list[int]:
        numbers: list[int] = []
        call_in_threads(
            lambda _: numbers.append(submit(self._head, self._code, "true").number), count, clients
        )
        return numbers

    def _wait(self, number: int) -> None:
        if (outcome := wait(self._head, number).outcome) != "succeeded":
            raise RuntimeError(f"job {number} ended: {outcome}")

    def _block(self) -> int:
        """The number of a job that holds all slots."""
        number = submit(self._head, self._code, "exec sleep 3600", f"{self._slots}:[]").number
        eventually(lambda: self._head.job(number).state == "running")
        return number

    @contextmanager
    def _full(self) -> Iterator[None]:
        blocker = self._block()
        try:
            yield
        finally:
            self._head.stop(blocker)
            wait(self._head, blocker)


@contextmanager
def running_pit(slots: int) -> Iterator[PitPeer]:
    with (
        tempfile.TemporaryDirectory() as place,
        running(Cluster(Path(place), Project(Path(place)))) as cluster,
    ):
        yield PitPeer(cluster, slots)
