"""From submission to the first line of the job's own output."""

from time import perf_counter

from bench.submitting import connect, snapshot, submit, wait
from bench.table import Row, percentile, time_row
from pit.head import Head
from pit_protocol.submission import Snapshot
from tests.e2e.cluster import Cluster

RUNS = 100


def measure(cluster: Cluster) -> list[Row]:
    code = snapshot(cluster)
    with connect(cluster) as head:
        wait(head, submit(head, code, "true")["number"])  # the mirror is warm from here on
        times = [_first_line(head, code) for _ in range(RUNS)]
    return [
        time_row("submit to first line, p50", percentile(times, 0.5), 0.5),
        time_row("submit to first line, p99", percentile(times, 0.99), 1.5),
    ]


def _first_line(head: Head, code: Snapshot) -> float:
    begun = perf_counter()
    number = submit(head, code, "echo here")["number"]
    cursor = None
    while True:
        batch = head.log(number, {"cursor": cursor}, wait_s=20)
        if any(line["source"] == "worker 0" for line in batch["lines"]):
            taken = perf_counter() - begun
            wait(head, number)  # one at a time: the next begins on an idle machine
            return taken
        cursor = batch["cursor"]
