"""The worker alone, with a head that answers at once: processes per second, and processor time for each."""

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from bench.sizes import Sizes
from bench.table import Row, seconds
from pit_protocol.messages.beat import Beat, Order, OrderAction, Orders
from tests.support.stubs.worker_head import StubHead, a_spec

SLOTS = 16  # processes that the head has the worker run at once
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
WITHIN_S = 300.0
GOAL_PER_S, GOAL_CPU_S = 300.0, 0.0015


class InstantHead(StubHead):
    """Keeps every slot of the node filled until nothing is left to run."""

    left: deque[Order]

    def fill(self, orders: list[Order]) -> float:
        """Have them all run; the seconds until the last end was reported."""
        begun = perf_counter()
        done = len(self.ends) + len(orders)
        with self.changed:
            self.left = deque(orders)
            self._refill()
            if not self.changed.wait_for(lambda: len(self.ends) >= done, WITHIN_S):
                raise RuntimeError(f"only {len(self.ends)} of {done} processes ended")
        return perf_counter() - begun

    def take(self, beat: Beat, chunks: list[bytes]) -> Orders | str:
        with self.changed:
            if not beat.wait_s:
                reported = {(report.process, report.attempt) for report in beat.reports}
                for key in [key for key, order in self.orders.items() if _is_forgotten(key, order, reported)]:
                    del self.orders[key]
        answer = super().take(beat, chunks)
        with self.changed:
            if not beat.wait_s and self._refill():
                answer = Orders(self.revision, tuple(map(self._with_size, self.orders.values())))
            self.changed.notify_all()
        return answer

    def _refill(self) -> bool:
        live = sum(order.action is OrderAction.RUN for order in self.orders.values())
        fresh = [self.left.popleft() for _ in range(min(SLOTS - live, len(self.left)))]
        for order in fresh:
            self.orders[order.process, order.attempt] = order
        if fresh:
            self.revision += 1
            self.changed.notify_all()
        return bool(fresh)


def measure(sizes: Sizes) -> list[Row]:
    with tempfile.TemporaryDirectory() as place, _running(Path(place)) as (head, pid):
        head.fill([_order(1)])
        before = _cpu_s(pid)
        taken = head.fill([_order(2 + number) for number in range(sizes.short_processes)])
        own, below = (after - then for after, then in zip(_cpu_s(pid), before, strict=True))
        codes = {end.exit_code for end in head.ends.values()}
        if codes != {0}:
            raise RuntimeError(f"the processes ended with {codes}")
    count = sizes.short_processes
    floor = seconds(lambda: [subprocess.run(["/bin/bash", "-c", "true"], check=True) for _ in range(count)])
    rate = count / taken
    return [
        Row(
            f"worker alone, {count} processes of `true` / fork + exec of bash",
            f"{rate:.0f} /s",
            f"{count / floor:.0f} /s",
            taken / floor,
            f"≥ {GOAL_PER_S:.0f} /s",
            rate >= GOAL_PER_S,
        ),
        Row(
            "worker's own processor time for each",
            f"{own / count * 1000:.2f} ms",
            goal=f"≤ {GOAL_CPU_S * 1000:.1f} ms",
            is_met=own / count <= GOAL_CPU_S,
        ),
        Row("processor time of its children for each", f"{below / count * 1000:.2f} ms"),
    ]


def _order(process: int) -> Order:
    return Order(process, 1, OrderAction.RUN, spec=a_spec("true"))


def _is_forgotten(key: tuple[int, int], order: Order, reported: set[tuple[int, int]]) -> bool:
    return order.action is OrderAction.FORGET and key not in reported


def _cpu_s(pid: int) -> tuple[float, float]:
    """Of the worker itself; and of its children, with all that they have waited for."""
    (own, waited), below = _times(pid), 0.0
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        below += sum(_times(int(child)))
    return own, waited + below


def _times(pid: int) -> tuple[float, float]:
    rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, rest[11:13])) / TICKS_PER_S, sum(map(int, rest[13:15])) / TICKS_PER_S


@contextmanager
def _running(place: Path) -> Iterator[tuple[InstantHead, int]]:
    for name in ("shared", "home/ann", "jobs/1/src", "jobs/1/keep"):
        (place / "data" / name).mkdir(parents=True)
    head = InstantHead(str(place / "data"))
    token = place / "token"
    token.touch(0o600)
    token.write_text(head.token)
    words = ["--url", head.url, "--token-file", str(token), "--spool", str(place / "spool")]
    with (place / "log").open("w") as log:
        worker = subprocess.Popen([sys.executable, "-m", "pit_worker", "run", *words], stderr=log)
    try:
        yield head, worker.pid
    finally:
        worker.terminate()
        worker.wait()
        head.close()
