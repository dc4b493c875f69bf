"""What both have to do, and how often per second, or how fast, they did it."""

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from bench.peers.sizes import PeerSizes
from bench.table import seconds


class Peer(Protocol):
    """New in each round. Nothing waits or runs before and after each call, but after the last."""

    name: str

    def run_single_jobs(self, count: int, clients: int) -> None:
        """Submit jobs of `true` one by one, and wait for the end of all."""

    def run_array(self, count: int) -> None:
        """Run `true` as an array, and wait for its end."""

    def submit_waiting(self, count: int, clients: int) -> float:
        """Submit jobs that cannot start yet, and take them away; the seconds that only submitting took."""

    def first_line(self) -> float:
        """The seconds from the submission to the first line of output."""

    def show_status(self) -> None:
        """What a user runs to see the queue."""

    def fill_queue(self, count: int) -> None:
        """Have so many jobs wait, as the last of all."""

    def large_array(self, count: int) -> tuple[float, float, float]:
        """The seconds to submit an array that cannot start yet, to show the queue, and to stop it."""


@dataclass
class Figure:
    what: str
    unit: str  # "/s", where more is better, or "ms"
    values: dict[str, list[float]] = field(default_factory=dict)  # by peer

    def add(self, peer: str, value: float) -> None:
        self.values.setdefault(peer, []).append(value)

    def median(self, peer: str) -> float:
        return statistics.median(self.values[peer])

    def ratio(self, peer: str, other: str) -> float:
        """How many times better one is than the other."""
        better = self.median(peer) / self.median(other)
        return better if self.unit == "/s" else 1 / better


class Comparison:
    """Runs all measurements of all peers, in turns."""

    def __init__(self, peers: list[Callable[[], AbstractContextManager[Peer]]], sizes: PeerSizes) -> None:
        self._peers = peers
        self._sizes = sizes
        self.figures: dict[str, Figure] = {}

    def run(self) -> None:
        for number in range(self._sizes.rounds):
            for begin in self._peers:
                with begin() as peer:
                    print(f"round {number + 1}: {peer.name} ...", flush=True)
                    self._measure(peer)

    def _measure(self, peer: Peer) -> None:
        sizes = self._sizes
        for clients in (1, 4):
            text = f"{sizes.single_jobs} single jobs of `true`, end to end, {clients} clients"
            took = seconds(lambda n=clients: peer.run_single_jobs(sizes.single_jobs, n))  # type: ignore[misc]
            self._add(text, "/s", peer, sizes.single_jobs / took)
        took = seconds(lambda: peer.run_array(sizes.elements))
        self._add(f"{sizes.elements:,} × `true` as an array, end to end", "/s", peer, sizes.elements / took)
        for clients in (1, 4):
            took = peer.submit_waiting(sizes.submissions, clients)
            self._add(f"submission alone, {clients} clients", "/s", peer, sizes.submissions / took)
        for _ in range(sizes.first_lines):
            self._add("idle: submission to first line", "ms", peer, peer.first_line() * 1000)
        parts = ("submit", "status", "stop")
        for part, took in zip(parts, peer.large_array(sizes.large_array), strict=True):
            self._add(f"array of {sizes.large_array:,}: {part}", "ms", peer, took * 1000)
        peer.fill_queue(sizes.waiting_jobs)
        for _ in range(sizes.status_calls):
            text = f"status with {sizes.waiting_jobs:,} waiting jobs"
            self._add(text, "ms", peer, seconds(peer.show_status) * 1000)

    def _add(self, what: str, unit: str, peer: Peer, value: float) -> None:
        self.figures.setdefault(what, Figure(what, unit)).add(peer.name, value)


def call_in_threads(call: Callable[[int], None], count: int, threads: int) -> None:
    """Make so many calls, each with its number, from so many threads; raises what one of them raises."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(call, range(count)))
